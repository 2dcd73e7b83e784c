"""What people look at: tables, pages, pictures."""
