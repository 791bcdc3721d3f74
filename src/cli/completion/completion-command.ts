import { Argument, type Command } from 'commander';
import type { CommandLine } from '../io.ts';
import { SHELLS, type Shell } from './scripts.ts';

/** `muster completion`, which comes last, because it knows the commands that are there when it runs. */
export function addCompletion(program: Command, { io, action }: CommandLine): void {
  program
    .command('completion')
    .description('print the script that completes commands and options in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', '\nIn bash: source <(muster completion bash)')
    .action(
      action(async (shell: Shell) => {
        const [{ commandTree }, { completionScript }] = await Promise.all([
          import('./command-tree.ts'),
          import('./scripts.ts'),
        ]);
        io.stdout.write(completionScript(shell, commandTree(program)));
      }),
    );
}
