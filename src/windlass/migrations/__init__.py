"""Migrations: numbered SQL, data only."""
