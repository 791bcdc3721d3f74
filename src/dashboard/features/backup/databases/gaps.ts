export interface Range {
  from: string;
  to: string;
}

const startOf = ({ from }: Range) => Date.parse(from);
const endOf = ({ to }: Range) => Date.parse(to);

/** Ranges in the order of time; those that touch are one. */
export function joined(ranges: readonly Range[]): Range[] {
  const whole: Range[] = [];
  for (const range of [...ranges].sort((a, b) => startOf(a) - startOf(b))) {
    const last = whole.at(-1);
    if (last === undefined || startOf(range) > endOf(last)) whole.push({ ...range });
    else if (endOf(range) > endOf(last)) last.to = range.to;
  }
  return whole;
}

/** What lies between ranges that are joined: nothing of it can be restored. */
export const gapsBetween = (ranges: readonly Range[]): Range[] =>
  ranges.slice(1).map(({ from }, before) => ({ from: ranges[before]?.to ?? from, to: from }));
