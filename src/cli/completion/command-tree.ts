import type { Command } from 'commander';

/** What can be typed, as the shells need it: read from the commands themselves, so that a new one is completed at once. */
export interface CommandNode {
  /** Such as `jobs watch`; empty for the program itself. */
  path: string;
  commands: { name: string; description: string }[];
  options: CompletedOption[];
  /** What the words that are no options can be, where there is a choice. */
  choices: readonly string[];
  /** Whether words that are no options are files. */
  takesFiles: boolean;
}

export interface CompletedOption {
  /** With its dashes: --json. */
  flag: string;
  description: string;
  /** What its value can be; `undefined` where it has none. */
  value: { choices: readonly string[]; isFile: boolean } | undefined;
}

/** The program and all commands below it, each before its own. Pure. */
export function commandTree(program: Command): CommandNode[] {
  return nodesOf(program, '');
}

function nodesOf(command: Command, path: string): CommandNode[] {
  const below = command.commands.map((child) => ({ child, name: child.name() }));
  const node: CommandNode = {
    path,
    commands: below.map(({ child, name }) => ({ name, description: child.description() })),
    options: [
      ...command.options.flatMap(({ long, description, required, optional, argChoices = [], flags }) =>
        long == null
          ? []
          : [
              {
                flag: long,
                description,
                value:
                  required || optional
                    ? { choices: argChoices, isFile: /<(file|path|folder)>/.test(flags) }
                    : undefined,
              },
            ],
      ),
      { flag: '--help', description: 'show help', value: undefined },
    ],
    choices: command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices),
    takesFiles: command.registeredArguments.some((argument) => /^(file|path|folder)$/.test(argument.name())),
  };
  return [
    node,
    ...below.flatMap(({ child, name }) => nodesOf(child, path === '' ? name : `${path} ${name}`)),
  ];
}
