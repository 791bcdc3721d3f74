import { Argument, type Command } from 'commander';
import { SHELLS, type Shell } from './scripts.ts';

/** `muster completion`, which comes last, because it knows the commands that are there when it runs. */
export function addCompletion(program: Command): void {
  program
    .command('completion')
    .description('print the script that completes commands and options in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(SHELLS))
    .addHelpText('after', '\nIn bash: source <(muster completion bash)')
    .action(async (shell: Shell) => {
      const [{ commandTree }, { completionScript }] = await Promise.all([
        import('./command-tree.ts'),
        import('./scripts.ts'),
      ]);
      process.stdout.write(completionScript(shell, commandTree(program)));
    });
}
