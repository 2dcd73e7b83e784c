"""Sharing between studies: the shared folder, the claims on its nodes, and a driver's session there."""
