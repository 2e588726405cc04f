"""Links between the hub and browsers, through native hosts."""
