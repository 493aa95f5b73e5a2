"""What groups of both protocols share: members' conversion, offsets, descriptions, the group coordinator."""
