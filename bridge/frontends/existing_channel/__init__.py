"""The protocol of another product's socket towards our hub: clients made for its native hosts find us."""
