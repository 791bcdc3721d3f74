/**
 * What a build of agent or watchdog says of itself, as a comment in the program: the server reads it when the program is
 * published, so that no file is offered to devices under another version than its own.
 */

/** How a mark begins; written in two parts, so that no program that holds this file seems to hold a mark. */
export const PROGRAM_MARK = ['/* muster', 'program '].join('-');

export const programMark = (component: string, version: string): string =>
  `${PROGRAM_MARK}${component} ${version} */`;

/** The marks in a text, in their order. */
export function programMarks(text: string): { component: string; version: string }[] {
  const parts = text.split(PROGRAM_MARK).slice(1);
  return parts.flatMap((part) => {
    const [, component, version] = /^([a-z]{1,20}) ([0-9A-Za-z.+-]{1,50}) \*\//.exec(part) ?? [];
    return component === undefined || version === undefined ? [] : [{ component, version }];
  });
}
