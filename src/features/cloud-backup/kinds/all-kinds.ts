import { calendar } from './calendar.ts';
import { contacts } from './contacts.ts';
import type { Kind, KindName } from './kind.ts';
import { mail } from './mail.ts';
import { onedrive } from './onedrive.ts';

export const KINDS: Readonly<Record<KindName, Kind>> = { mail, calendar, contacts, onedrive };
