"""Parts that the verbs share: arguments, options of the clients, output, sub-verbs."""
