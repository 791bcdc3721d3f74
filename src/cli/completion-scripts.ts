import type { Command } from 'commander';

/** Generates the scripts with which a shell completes `muster`. Pure. */
export type Shell = 'bash' | 'zsh' | 'fish';
export const SHELLS: readonly Shell[] = ['bash', 'zsh', 'fish'];

export function completionScript(shell: Shell, nodes: readonly CommandNode[]): string {
  return { bash: bashScript, zsh: zshScript, fish: fishScript }[shell](nodes);
}

const wordsOf = ({ commands, choices, options }: CommandNode) => [
  ...commands.map(({ name }) => name),
  ...choices,
  ...options.map(({ flag }) => flag),
];
const quoted = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
/** The cases of the options that take a value. */
const valued = (nodes: readonly CommandNode[]) =>
  nodes.flatMap(({ path, options }) =>
    options.flatMap(({ flag, value }) => (value === undefined ? [] : [{ key: `${path}|${flag}`, value }])),
  );
/** `path|word` of each word that leads to a command. */
const steps = (nodes: readonly CommandNode[]) =>
  nodes.flatMap(({ path, commands }) => commands.map(({ name }) => `${path}|${name}`));

/** Bash and zsh find the command that is being typed in the same way; in zsh, the variable `path` is PATH. */
const walk = (nodes: readonly CommandNode[], at = 'path') => `    case "$${at}|$word" in
      ${steps(nodes).map(quoted).join('|')}) ${at}="\${${at}:+$${at} }$word" ;;
    esac`;

function bashScript(nodes: readonly CommandNode[]): string {
  const values = valued(nodes).map(({ key, value }) => `    ${quoted(key)}) ${bashValue(value)}; return ;;`);
  const words = nodes.map(
    (node) =>
      `    ${quoted(node.path)}) words=${quoted(wordsOf(node).join(' '))}${node.takesFiles ? ' files=1' : ''} ;;`,
  );
  return `# Completion of muster for bash: source <(muster completion bash)
_muster() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path='' words='' files='' word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
${walk(nodes)}
  done
  COMPREPLY=()
  case "$path|$prev" in
${values.join('\n')}
  esac
  case "$path" in
${words.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  [ -n "$files" ] && [ "\${cur#-}" = "$cur" ] && COMPREPLY+=($(compgen -f -- "$cur"))
  return 0
}
complete -F _muster muster
`;
}

function bashValue({ choices, isFile }: NonNullable<CompletedOption['value']>): string {
  if (isFile) return 'COMPREPLY=($(compgen -f -- "$cur"))';
  return choices.length === 0 ? ':' : `COMPREPLY=($(compgen -W ${quoted(choices.join(' '))} -- "$cur"))`;
}

function zshScript(nodes: readonly CommandNode[]): string {
  const values = valued(nodes).map(({ key, value: { choices, isFile } }) => {
    const offer = isFile
      ? '_files'
      : choices.length === 0
        ? ':'
        : `compadd -- ${choices.map(quoted).join(' ')}`;
    return `    ${quoted(key)}) ${offer}; return ;;`;
  });
  const described = ({ commands, choices, options }: CommandNode) =>
    [
      ...commands,
      ...choices.map((name) => ({ name, description: '' })),
      ...options.map(({ flag, description }) => ({ name: flag, description })),
    ]
      .map(({ name, description }) => quoted(`${name.replaceAll(':', '\\:')}:${description}`))
      .join(' ');
  const words = nodes.map(
    (node) => `    ${quoted(node.path)}) offered=(${described(node)})${node.takesFiles ? '; _files' : ''} ;;`,
  );
  return `#compdef muster
# Completion of muster for zsh: muster completion zsh > "\${fpath[1]}/_muster"
_muster() {
  local at='' word i
  local -a offered
  for ((i = 2; i < CURRENT; i++)); do
    word=\${words[i]}
${walk(nodes, 'at')}
  done
  case "$at|\${words[CURRENT-1]}" in
${values.join('\n')}
  esac
  case "$at" in
${words.join('\n')}
  esac
  _describe muster offered
}
# Read from a file of fpath, this is the function; otherwise it has to be registered.
if [ "\${funcstack[1]}" = _muster ]; then _muster "$@"; else compdef _muster muster; fi
`;
}

function fishScript(nodes: readonly CommandNode[]): string {
  const fishQuoted = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = nodes.flatMap(({ path, commands, choices, options, takesFiles }) => {
    const at = `complete -c muster -n ${fishQuoted(`__muster_at ${fishQuoted(path)}`)}`;
    return [
      ...commands.map(
        ({ name, description }) => `${at} -a ${fishQuoted(name)} -d ${fishQuoted(description)}`,
      ),
      ...choices.map((name) => `${at} -a ${fishQuoted(name)}`),
      ...options.map(({ flag, description, value }) => {
        const takes =
          value === undefined
            ? ''
            : value.isFile
              ? ' -r -F'
              : ` -x${value.choices.length === 0 ? '' : ` -a ${fishQuoted(value.choices.join(' '))}`}`;
        return `${at} -l ${flag.slice(2)}${takes} -d ${fishQuoted(description)}`;
      }),
      ...(takesFiles ? [`${at} -F`] : []),
    ];
  });
  return `# Completion of muster for fish: muster completion fish > ~/.config/fish/completions/muster.fish
function __muster_at
  set -l path ''
  for word in (commandline -opc)[2..-1]
    switch "$path|$word"
      case ${steps(nodes).map(fishQuoted).join(' ')}
        set path (string trim "$path $word")
    end
  end
  test "$path" = "$argv[1]"
end
complete -c muster -f
${lines.join('\n')}
`;
}

/** The words that can be typed, read from the commands themselves, so that a new command is completed at once. */
export interface CommandNode {
  /** Such as `jobs watch`; empty for the program itself. */
  path: string;
  commands: { name: string; description: string }[];
  options: CompletedOption[];
  /** The possible values of arguments, if they are a fixed set. */
  choices: readonly string[];
  /** Whether arguments are files. */
  takesFiles: boolean;
}

export interface CompletedOption {
  /** With its dashes: --json. */
  flag: string;
  description: string;
  /** The kind of its value; `undefined` if it has none. */
  value: { choices: readonly string[]; isFile: boolean } | undefined;
}

/**
 * The program and all commands below it, each before its subcommands. Pure.
 * @param shortForms  commands that take the options of one of their subcommands, which may be left out
 */
export function commandTree(program: Command, shortForms: Readonly<Record<string, string>>): CommandNode[] {
  const nodes = nodesOf(program, '');
  const byPath = new Map(nodes.map((node) => [node.path, node]));
  for (const [path, left] of Object.entries(shortForms)) {
    const [short, full] = [byPath.get(path), byPath.get(`${path} ${left}`)];
    if (short !== undefined && full !== undefined) short.options = full.options;
  }
  return nodes;
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
