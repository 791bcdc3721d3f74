import type { PatternNode } from './pattern-cost.ts';

interface OpenGroup {
  /** Completed alternatives. */
  choices: PatternNode[];
  /** Parts of the current alternative. */
  parts: PatternNode[];
}

/** Builds the syntax tree of a pattern from left to right. */
export class PatternTree {
  readonly #open: OpenGroup[] = [{ choices: [], parts: [] }];

  get #innermost(): OpenGroup {
    const group = this.#open.at(-1);
    if (group === undefined) throw new Error('all groups of the pattern are closed');
    return group;
  }

  add(node: PatternNode): void {
    this.#innermost.parts.push(node);
  }

  open(): void {
    this.#open.push({ choices: [], parts: [] });
  }

  close(): void {
    const group = this.#innermost;
    this.#open.pop();
    this.add(nodeOf(group));
  }

  /** Starts another alternative of the same group. */
  or(): void {
    const { choices, parts } = this.#innermost;
    choices.push(sequence(parts.splice(0)));
  }

  /** Repeats the last part. */
  repeat(min: number, max: number): void {
    const part = this.#innermost.parts.pop();
    if (part !== undefined) this.add({ is: 'repeat', part, min, max });
  }

  whole(): PatternNode {
    return nodeOf(this.#innermost);
  }
}

function nodeOf({ choices, parts }: OpenGroup): PatternNode {
  const last = sequence(parts);
  return choices.length === 0 ? last : { is: 'choice', parts: [...choices, last] };
}

function sequence(parts: readonly PatternNode[]): PatternNode {
  const [only, ...others] = parts;
  if (only === undefined) return { is: 'nothing' };
  return others.length === 0 ? only : { is: 'sequence', parts };
}
