import { z } from 'zod';
import { LogLevel } from '../../../protocol/index.ts';

/** A value that looks like a number in a link that was written by hand is read as one. */
const text = (max: number) =>
  z
    .union([z.string(), z.number()])
    .transform((value) => String(value).slice(0, max) || undefined)
    .optional()
    .catch(undefined);
const list = <S extends z.ZodType>(entry: S) => z.array(entry).min(1).max(50).optional().catch(undefined);
/** `source:sshd`: a field and the value that it must have, or must not have. */
const FieldValue = z.string().regex(/^[a-zA-Z]+:/);

/** Everything that decides which entries are shown is in the address, so that a link shows the same. */
export const LogSearch = z.object({
  log: text(255),
  level: list(LogLevel),
  source: text(255),
  ids: text(200),
  text: text(500),
  range: text(8),
  from: text(40),
  to: text(40),
  only: list(FieldValue),
  not: list(FieldValue),
  /** The entry whose details are open, by its number in the log. */
  record: z.number().int().nonnegative().optional().catch(undefined),
  /** Stored events in place of what the device has. */
  stored: z.literal(true).optional().catch(undefined),
});
export type LogSearch = z.output<typeof LogSearch>;

/** Without the entry that is open: what a saved view or another page takes along. */
export function viewOf({ record: _record, ...view }: LogSearch): LogSearch {
  return withoutUndefined(view);
}

/** The first search on the next device of the same system, without parts of one case (texts, fixed times). */
export function rememberedPart({ log, level, range, not }: LogSearch): LogSearch {
  return withoutUndefined({ log, level, range, not });
}

export const withoutUndefined = <T extends object>(value: T): T => {
  const copy = { ...value };
  for (const key of Object.keys(copy)) {
    if (Reflect.get(copy, key) === undefined) Reflect.deleteProperty(copy, key);
  }
  return copy;
};

/** Whether the address says nothing of its own, so that remembered choices may fill it. */
export const isBare = (search: LogSearch): boolean => Object.keys(withoutUndefined(search)).length === 0;

const ORDER = ['level', 'source', 'ids', 'text', 'range', 'from', 'to', 'only', 'not'] as const;

/** Whether any condition is set. */
export const hasConditions = (search: LogSearch): boolean => ORDER.some((name) => search[name] !== undefined);

export const NO_CONDITIONS: Record<(typeof ORDER)[number], undefined> = {
  level: undefined,
  source: undefined,
  ids: undefined,
  text: undefined,
  range: undefined,
  from: undefined,
  to: undefined,
  only: undefined,
  not: undefined,
};
