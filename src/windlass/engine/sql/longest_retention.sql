-- For how many days the most demanding definition wants its history kept.
select max(retention_days) from windlass.effective_definitions
