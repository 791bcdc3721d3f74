/** A list of event ids and ranges as a person writes it: `4624, 4625, 7000-7040`. Ends are included. */
export type EventIds = readonly (readonly [from: number, to: number])[];

const PART = /^(\d{1,9})(?:\s*-\s*(\d{1,9}))?$/;

/** @returns `undefined` where the text is no such list; an empty list where it is empty. */
export function parseEventIds(text: string): EventIds | undefined {
  const ranges: (readonly [number, number])[] = [];
  for (const part of text.split(/[,;\n]/)) {
    const trimmed = part.trim();
    if (trimmed === '') continue;
    const [, first, last = first] = PART.exec(trimmed) ?? [];
    if (first === undefined || last === undefined) return undefined;
    const [from, to] = [Number(first), Number(last)];
    if (from > to) return undefined;
    ranges.push([from, to]);
  }
  return ranges;
}

/** The one id of the list, which a device can filter by; `undefined` for any other list. */
export function onlyEventId(ids: EventIds): number | undefined {
  const [first, ...others] = ids;
  return first !== undefined && others.length === 0 && first[0] === first[1] ? first[0] : undefined;
}

export function matchesEventIds(ids: EventIds, eventId: string): boolean {
  const id = Number(eventId);
  return eventId !== '' && ids.some(([from, to]) => id >= from && id <= to);
}
