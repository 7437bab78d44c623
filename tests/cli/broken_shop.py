"""An application that cannot be imported."""

from windlass import Windlass

app = Windlass(nothing="such")
