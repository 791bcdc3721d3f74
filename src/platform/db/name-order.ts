/**
 * SQL for a column as people sort names: by letters, with accents and case telling apart only what is alike otherwise.
 * The database's own order is of code points: `Zed` before `apple`, `Äpfel` behind all. Names that are equal in it are
 * identical, so behind it there needs to be an id and nothing else.
 */
export const nameOrder = (column: string): string => `${column} collate "und-x-icu"`;
