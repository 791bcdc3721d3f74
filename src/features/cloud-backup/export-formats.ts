import { z } from 'zod';
import { EventContent } from './graph-kinds.ts';

/** Contacts and events in standard formats: vCard 3.0 (RFC 2426) and iCalendar (RFC 5545). */

const words = z.string().nullish().catch(null);
const list = z.array(z.string()).catch([]);
const Address = z
  .object({ street: words, city: words, state: words, postalCode: words, countryOrRegion: words })
  .nullish()
  .catch(null);
const Contact = z.object({
  displayName: words,
  givenName: words,
  middleName: words,
  surname: words,
  title: words,
  generation: words,
  nickName: words,
  birthday: words,
  companyName: words,
  department: words,
  jobTitle: words,
  profession: words,
  businessHomePage: words,
  categories: list,
  personalNotes: words,
  mobilePhone: words,
  businessPhones: list,
  homePhones: list,
  homeAddress: Address,
  businessAddress: Address,
  otherAddress: Address,
  emailAddresses: z.array(z.object({ address: words })).catch([]),
});

/** What a vCard has no name for, such as an assistant, is in the item itself only. */
export function vCardOf(content: Buffer): Buffer {
  const contact = Contact.parse(JSON.parse(content.toString()));
  const address = contact.emailAddresses[0]?.address ?? '';
  const { surname, givenName, middleName, title, generation, companyName, department } = contact;
  return lines([
    'BEGIN:VCARD',
    'VERSION:3.0',
    `FN:${escaped(contact.displayName ?? address)}`,
    `N:${[surname, givenName, middleName, title, generation].map(escaped).join(';')}`,
    ...optional('NICKNAME', contact.nickName),
    ...optional('BDAY', /^\d{4}-\d\d-\d\d/.exec(contact.birthday ?? '')?.[0]),
    ...compound('ORG', department ? [companyName, department] : [companyName]),
    ...optional('TITLE', contact.jobTitle),
    ...optional('ROLE', contact.profession),
    ...contact.emailAddresses.flatMap(({ address: one }) => optional('EMAIL;TYPE=INTERNET', one)),
    ...optional('TEL;TYPE=CELL', contact.mobilePhone),
    ...contact.businessPhones.flatMap((phone) => optional('TEL;TYPE=WORK', phone)),
    ...contact.homePhones.flatMap((phone) => optional('TEL;TYPE=HOME', phone)),
    ...place('ADR;TYPE=HOME', contact.homeAddress),
    ...place('ADR;TYPE=WORK', contact.businessAddress),
    ...place('ADR', contact.otherAddress),
    ...webPage(contact.businessHomePage),
    ...(contact.categories.length === 0 ? [] : [`CATEGORIES:${contact.categories.map(escaped).join(',')}`]),
    ...optional('NOTE', contact.personalNotes),
    'END:VCARD',
  ]);
}

/** The first two parts of an address are a post box and an addition, which Graph does not know. */
const place = (name: string, address: z.infer<typeof Address>): string[] => {
  if (address === null || address === undefined) return [];
  const { street, city, state, postalCode, countryOrRegion } = address;
  return compound(name, [null, null, street, city, state, postalCode, countryOrRegion]);
};

const webPage = (page: string | null | undefined): string[] =>
  URL.canParse(page ?? '') ? [`URL:${new URL(page ?? '').href}`] : [];

const When = z.object({ dateTime: words, timeZone: words }).nullish().catch(null);
const Pattern = z.object({
  type: words,
  interval: z.number().nullish().catch(null),
  daysOfWeek: z.array(z.string()).catch([]),
  firstDayOfWeek: words,
  dayOfMonth: z.number().nullish().catch(null),
  month: z.number().nullish().catch(null),
  index: words,
});
const Range = z.object({
  type: words,
  startDate: words,
  endDate: words,
  numberOfOccurrences: z.number().nullish().catch(null),
});
const Person = z.object({ emailAddress: z.object({ address: words }).nullish().catch(null) });
const Event = z.object({
  iCalUId: words,
  id: words,
  subject: words,
  bodyPreview: words,
  body: z.object({ contentType: words, content: words }).nullish().catch(null),
  isAllDay: z.boolean().nullish().catch(null),
  start: When,
  end: When,
  location: z.object({ displayName: words }).nullish().catch(null),
  organizer: Person.nullish().catch(null),
  attendees: z.array(Person).catch([]),
  lastModifiedDateTime: words,
  originalStart: words,
  recurrence: z.object({ pattern: Pattern, range: Range }).nullish().catch(null),
});
type Event = z.infer<typeof Event>;

export function iCalendarOf(content: Buffer): Buffer {
  const { event, exceptions } = EventContent.parse(JSON.parse(content.toString()));
  const master = Event.parse(event);
  return lines([
    'BEGIN:VCALENDAR',
    'VERSION:2.0',
    'PRODID:-//Muster//Cloud backup//EN',
    ...component(master, undefined),
    ...exceptions.flatMap((one) => component(Event.parse(one), master)),
    'END:VCALENDAR',
  ]);
}

/** @param master  the series, if the event is an exception of one */
function component(event: Event, master: Event | undefined): string[] {
  const rule = master === undefined ? ruleOf(event) : undefined;
  return [
    'BEGIN:VEVENT',
    `UID:${escaped((master ?? event).iCalUId ?? event.id)}`,
    `DTSTAMP:${compact(event.lastModifiedDateTime ?? '1970-01-01T00:00:00')}Z`,
    ...moment('DTSTART', event.start, event.isAllDay === true),
    ...moment('DTEND', event.end, event.isAllDay === true),
    ...(master === undefined || typeof event.originalStart !== 'string'
      ? []
      : [`RECURRENCE-ID:${compact(event.originalStart)}Z`]),
    ...(rule === undefined ? [] : [`RRULE:${rule}`]),
    ...optional('SUMMARY', event.subject),
    ...optional('LOCATION', event.location?.displayName),
    ...description(event),
    ...optional('X-ORGANIZER', event.organizer?.emailAddress?.address),
    ...event.attendees.flatMap(({ emailAddress }) =>
      MAIL_ADDRESS.test(emailAddress?.address ?? '') ? [`ATTENDEE:mailto:${emailAddress?.address}`] : [],
    ),
    'END:VEVENT',
  ];
}

/** Nothing that would end the line, or begin a parameter. */
const MAIL_ADDRESS = /^[^\s@:;,"<>\p{Cc}]+@[^\s@:;,"<>\p{Cc}]+$/u;

/** The preview is the first 255 characters of the text. iCalendar has no HTML; Outlook and others know this name for it. */
function description({ body, bodyPreview }: Event): string[] {
  if (body?.contentType === 'text') return optional('DESCRIPTION', body.content);
  const html = body?.contentType === 'html' ? body.content : null;
  return [...optional('DESCRIPTION', bodyPreview), ...optional('X-ALT-DESC;FMTTYPE=text/html', html)];
}

const FREQUENCIES: Readonly<Record<string, string>> = {
  daily: 'DAILY',
  weekly: 'WEEKLY',
  absoluteMonthly: 'MONTHLY',
  relativeMonthly: 'MONTHLY',
  absoluteYearly: 'YEARLY',
  relativeYearly: 'YEARLY',
};
const INDEXES: Readonly<Record<string, string>> = {
  first: '1',
  second: '2',
  third: '3',
  fourth: '4',
  last: '-1',
};

function ruleOf({ recurrence, start, isAllDay }: Event): string | undefined {
  const frequency = FREQUENCIES[recurrence?.pattern.type ?? ''];
  if (recurrence === null || recurrence === undefined || frequency === undefined) return undefined;
  const { pattern, range } = recurrence;
  return [
    `FREQ=${frequency}`,
    `INTERVAL=${pattern.interval ?? 1}`,
    ...daysOf(pattern, daysBetween(range, start), start),
    ...(frequency === 'YEARLY' && (pattern.month ?? 0) > 0
      ? [`BYMONTH=${monthOf(pattern, daysBetween(range, start), start)}`]
      : []),
    ...(range.type === 'numbered' ? [`COUNT=${range.numberOfOccurrences ?? 1}`] : []),
    ...(range.type === 'endDate' && isDay(range.endDate)
      ? [`UNTIL=${isAllDay === true ? compact(range.endDate) : endOf(range, start)}`]
      : []),
  ].join(';');
}

const WEEKDAYS = ['SU', 'MO', 'TU', 'WE', 'TH', 'FR', 'SA'];

/** The weekday that lies so many days later; nothing if it is none. */
function weekday(name: string | null | undefined, later: number): string[] {
  const at = WEEKDAYS.indexOf((name ?? '').slice(0, 2).toUpperCase());
  return at < 0 ? [] : [WEEKDAYS[(at + later + 7) % 7] ?? ''];
}

/** The days of a pattern, which are those of its own time zone, as days of UTC. */
function daysOf(pattern: z.infer<typeof Pattern>, later: number, start: z.infer<typeof When>): string[] {
  const days = pattern.daysOfWeek.flatMap((day) => weekday(day, later));
  const byDay = days.length === 0 ? [] : [`BYDAY=${days.join(',')}`];
  if (pattern.type === 'absoluteMonthly' || pattern.type === 'absoluteYearly') {
    const day = pattern.dayOfMonth ?? 0;
    if (day <= 0) return byDay;
    const isOfYear = pattern.type === 'absoluteYearly' && later !== 0;
    const shifted = isOfYear ? Number(start?.dateTime?.slice(8, 10)) : inMonth(day + later);
    return [...byDay, `BYMONTHDAY=${shifted}`];
  }
  if (pattern.type === 'weekly' && (pattern.interval ?? 1) > 1) {
    // Which weeks count depends on where they begin.
    return [...byDay, ...weekday(pattern.firstDayOfWeek, later).map((day) => `WKST=${day}`)];
  }
  const index = pattern.type?.startsWith('relative') === true ? INDEXES[pattern.index ?? ''] : undefined;
  if (index === undefined || days.length === 0) return byDay;
  // Of several days, the first that comes.
  if (days.length > 1) return [...byDay, `BYSETPOS=${index}`];
  if (later === 0) return [`BYDAY=${index}${days[0]}`];
  // The day after the second Monday is not always the second Tuesday.
  const first = index === '-1' ? -7 : (Number(index) - 1) * 7 + 1;
  const among = Array.from({ length: 7 }, (_, day) => first + day + later);
  return [...byDay, `BYMONTHDAY=${among.map((day) => (day === 0 ? (later > 0 ? 1 : -1) : day)).join(',')}`];
}

/** The day before the first is the last of the month before. */
const inMonth = (day: number): number => (day === 0 ? -1 : day > 31 ? 1 : day);

/** A series that is held once a year may begin in another month in UTC. */
const monthOf = ({ type, month }: z.infer<typeof Pattern>, later: number, start: z.infer<typeof When>) =>
  type === 'absoluteYearly' && later !== 0 ? Number(start?.dateTime?.slice(5, 7)) : month;

const isDay = (text: string | null | undefined): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text ?? '') && !Number.isNaN(Date.parse(text ?? ''));
const DAY_MS = 86_400_000;

/**
 * The days of a series are those of its own time zone, while its times are UTC: by how many days it begins later in UTC,
 * which is at most one.
 */
function daysBetween({ startDate }: z.infer<typeof Range>, start: z.infer<typeof When>): number {
  if (start?.timeZone !== 'UTC') return 0;
  const days = (Date.parse(start.dateTime?.slice(0, 10) ?? '') - Date.parse(startDate ?? '')) / DAY_MS;
  return Math.abs(days) <= 1 ? days : 0;
}

/** The end of the last day: where a series begins on another day in UTC, it ends on another day. */
function endOf(range: z.infer<typeof Range>, start: z.infer<typeof When>): string {
  const lastMs = Date.parse(range.endDate ?? '') + daysBetween(range, start) * DAY_MS;
  const last = new Date(lastMs).toISOString().slice(0, 10);
  return `${compact(last)}T235959${start?.timeZone === 'UTC' ? 'Z' : ''}`;
}

function moment(name: string, when: z.infer<typeof When>, isAllDay: boolean): string[] {
  const at = compact(when?.dateTime);
  if (at === '') return [];
  if (isAllDay) return [`${name};VALUE=DATE:${at.slice(0, 8)}`];
  return [`${name}:${at}${when?.timeZone === 'UTC' ? 'Z' : ''}`];
}

/** `2026-11-23T10:00:00.0000000` as `20261123T100000`. */
const compact = (text: string | null | undefined): string =>
  (/^[\d:T-]{10,19}/.exec(text ?? '')?.[0] ?? '').replace(/[:-]/g, '');

const optional = (name: string, value: string | null | undefined): string[] =>
  value === null || value === undefined || value === '' ? [] : [`${name}:${escaped(value)}`];

/** A value of several parts, if there is any. */
const compound = (name: string, parts: readonly (string | null | undefined)[]): string[] =>
  parts.some((part) => part) ? [`${name}:${parts.map(escaped).join(';')}`] : [];

const escaped = (text: string | null | undefined): string =>
  (text ?? '')
    .replace(/[\\;,]/g, String.raw`\$&`)
    .replace(/\r?\n|\r/g, String.raw`\n`)
    .replace(/\p{Cc}/gu, ' ');

/** Folds lines longer than 75 bytes; continuation lines begin with a space. */
const lines = (all: readonly string[]): Buffer =>
  Buffer.from(all.map((line) => `${folded(line)}\r\n`).join(''));

function folded(line: string): string {
  let text = '';
  let bytes = 0;
  for (const letter of line) {
    const size = Buffer.byteLength(letter);
    if (bytes + size > 73) {
      text += '\r\n ';
      bytes = 1;
    }
    text += letter;
    bytes += size;
  }
  return text;
}
