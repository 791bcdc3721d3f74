import type { PatternNode } from './pattern-cost.ts';

interface OpenGroup {
  /** Alternatives that are complete. */
  choices: PatternNode[];
  /** Parts of the alternative that is being read. */
  parts: PatternNode[];
}

/** Builds the structure of a pattern while that is read from left to right. */
export class PatternTree {
  readonly #open: OpenGroup[] = [{ choices: [], parts: [] }];

  get #innermost(): OpenGroup {
    const group = this.#open.at(-1);
    if (group === undefined) throw new Error('every group of the pattern is closed');
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

  /** Another alternative of the same group begins. */
  or(): void {
    const { choices, parts } = this.#innermost;
    choices.push(sequence(parts.splice(0)));
  }

  /** What was read last is repeated. */
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
