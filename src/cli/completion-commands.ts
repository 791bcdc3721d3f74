import { type Command, Argument } from 'commander';
import { SHELLS, type Shell, commandTree, completionScript } from './completion-scripts.ts';
import type { CommandLine } from './io.ts';
import { SHORT_FORMS } from './short-forms.ts';

export function addCompletion(program: Command, { io, action }: CommandLine): void {
  program
    .command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', '\nIn bash: source <(muster completion bash)')
    .action(
      // All commands are loaded for this one.
      action(
        async (shell: Shell) =>
          void io.stdout.write(completionScript(shell, commandTree(program, SHORT_FORMS))),
      ),
    );
}
