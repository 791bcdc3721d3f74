/** Times in fields of forms: they are in the time zone of this computer, and are sent with its offset. */

const MINUTE_MS = 60_000;
const SECOND_MS = 1000;
const pad = (figure: number) => String(figure).padStart(2, '0');

/** The value of a field for date and time. */
export const localField = (at: Date): string =>
  new Date(at.getTime() - at.getTimezoneOffset() * MINUTE_MS).toISOString().slice(0, 19);

/** What such a field holds; `undefined`: it is empty, or not whole yet. */
export function fromLocalField(value: string): Date | undefined {
  const at = new Date(value);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** "2026-11-23T09:30:00+01:00" */
export function withOffset(at: Date): string {
  const ahead = -at.getTimezoneOffset();
  const [hours, minutes] = [Math.trunc(Math.abs(ahead) / 60), Math.abs(ahead) % 60];
  return `${localField(at)}${ahead < 0 ? '-' : '+'}${pad(hours)}:${pad(minutes)}`;
}

/** The first whole second that is not before an instant: fields know no smaller ones. */
export const secondFrom = (at: string): Date => new Date(Math.ceil(Date.parse(at) / SECOND_MS) * SECOND_MS);

/** The last whole second that is not after an instant. */
export const secondUpTo = (at: string): Date => new Date(Math.floor(Date.parse(at) / SECOND_MS) * SECOND_MS);

/** "Europe/Berlin" */
export const timeZone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone;
