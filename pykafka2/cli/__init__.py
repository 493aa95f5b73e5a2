"""The command line `pykafka2`: entry.py starts it, main.py finds the verb, each verb is a module.

    records/   produce, consume and sql, and the formats of their records
    admin/     topics, groups, configs, acls, users, tokens, quotas, transactions, cluster, reassign, elect,
               check, metrics
    perf/      perf
    demo/      demo
    broker/    broker
    common/    what the verbs share: arguments (parsing.py, partitions.py, positions.py), options of the
               clients from all sources (connection.py, properties.py, profiles.py), tables and JSON
               (output.py), sub-verbs (verbs.py), outcomes and confirmation (changes.py), ids of brokers that
               are not running (live_brokers.py), exit codes

How to add a verb:

1. Write a module in one of these folders. Its docstring is the text of `pykafka2 NAME --help`, with examples.
   The module has three names:

       SUMMARY = "one line for `pykafka2 --help`"

       def configure(parser: Parser) -> None:           # add the arguments
           connection.add_options(parser)               # -b, -X, --config, --profile; needs a cluster
           output.add_options(parser)                   # --json

       def run(arguments: Namespace, output: Output) -> int:      # return the exit code
           with connection.admin(arguments) as client: ...

   A verb with sub-verbs (`topics list`) calls `verbs.add_actions(parser, Action(...), ...)` in `configure`
   and `return verbs.run_action(arguments, output)` in `run`.
2. Add its name to `VERBS` in main.py. Its module is imported only if the verb is typed, and imports nothing
   heavy at its top: import a client inside `run`. Import public names only (a contract of import-linter).
3. Raise `UsageError` for a bad argument (exit code 2); it names the argument, the value and the valid ones.
   Return 1 after a failure that `output.error` reported, or let a `KafkaError` pass: main.py prints it.
   `KeyboardInterrupt` and `BrokenPipeError` can pass, too; report first what was done.
4. Print results with `output.table`, `output.item` or `output.line`, and everything else with `output.note`,
   which goes to stderr. `output.progress` shows a bar if stderr is a terminal.
5. Test it as typed in tests/cli (tests/cli/typed.py): in a subprocess, in a pipe and in a pseudo-terminal.
   Describe the verb and its JSON in docs/guides/command-line.md.
"""
