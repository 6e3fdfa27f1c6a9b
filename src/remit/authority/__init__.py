"""Who may: contracts now; policy, directory, approvals and the gate after them. Pure: no I/O, no clock."""
