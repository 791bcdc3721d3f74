/** A Dockerfile as far as ours needs it read: instructions with their words, by stage. */

export interface Instruction {
  name: string;
  /** All that follows the name, on one line. */
  text: string;
}

export interface Stage {
  image: string;
  /** What other stages call it. */
  alias: string | undefined;
  instructions: Instruction[];
}

export function stagesOf(dockerfile: string): Stage[] {
  const stages: Stage[] = [];
  const lines = dockerfile.split('\n').filter((line) => !line.trimStart().startsWith('#'));
  for (const line of lines
    .join('\n')
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')) {
    const { name, text = '' } = /^(?<name>[A-Z]+)\s+(?<text>.*)$/.exec(line.trim())?.groups ?? {};
    if (name === 'FROM') {
      const [image = '', , alias] = text.split(/\s+/);
      stages.push({ image, alias, instructions: [] });
    } else if (name !== undefined) {
      stages.at(-1)?.instructions.push({ name, text });
    }
  }
  return stages;
}

/** `--from` and the paths of a COPY; the last path is where the others go. */
export function copyOf(text: string): { from: string | undefined; sources: string[]; target: string } {
  const words = text.split(/\s+/);
  const from = words.find((word) => word.startsWith('--from='))?.slice('--from='.length);
  const paths = words.filter((word) => !word.startsWith('--'));
  return { from, sources: paths.slice(0, -1), target: paths.at(-1) ?? '' };
}

/** The words of an instruction in its form as JSON, which runs without a shell. */
export const wordsOf = (text: string): string[] => JSON.parse(text.slice(text.indexOf('['))) as string[];
