"""What people see while a search runs."""
