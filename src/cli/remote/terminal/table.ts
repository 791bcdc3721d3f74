import { visible } from './terminal-text.ts';

/** Lines with columns below each other. Where there is a width, the last column is cut to it. Pure. */
export function table(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  width: number | undefined,
): string[] {
  const lines = [titles, ...rows].map((cells) => cells.map(visible));
  const widths = titles.map((_title, at) =>
    lines.reduce((most, cells) => Math.max(most, lengthOf(cells[at])), 0),
  );
  return lines.map((cells) => {
    const line = cells.map((cell, at) => cell + ' '.repeat((widths[at] ?? 0) - lengthOf(cell))).join('  ');
    return fitted(line.trimEnd(), width);
  });
}

/** The line as it fits; what is missing is marked. */
export function fitted(line: string, width: number | undefined): string {
  if (width === undefined || lengthOf(line) <= width) return line;
  return `${charactersOf(line)
    .slice(0, Math.max(0, width - 1))
    .join('')}…`;
}

const lengthOf = (text = '') => charactersOf(text).length;

const segmenter = new Intl.Segmenter();
/** As people count them: an emoji of several code points is one. */
function charactersOf(text: string): string[] {
  return /^[ -~]*$/.test(text)
    ? text.split('')
    : Array.from(segmenter.segment(text), ({ segment }) => segment);
}
