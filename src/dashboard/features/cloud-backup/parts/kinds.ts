import { IconAddressBook, IconCalendarEvent, IconFile, IconMail, type Icon } from '@tabler/icons-react';
import type { CloudBackupItem } from '../../../api/index.ts';

export type Kind = CloudBackupItem['itemType'];

/** What of a user can be backed up. */
export const KINDS: readonly Kind[] = ['mail', 'calendar', 'contacts', 'onedrive'];

export const KIND_NAMES: Readonly<Record<Kind, string>> = {
  mail: 'Mail',
  calendar: 'Calendar',
  contacts: 'Contacts',
  onedrive: 'OneDrive',
};

/** What one of them is called. */
export const ITEM_NAMES: Readonly<Record<Kind, string>> = {
  mail: 'Message',
  calendar: 'Event',
  contacts: 'Contact',
  onedrive: 'File',
};

export const KIND_ICONS: Readonly<Record<Kind, Icon>> = {
  mail: IconMail,
  calendar: IconCalendarEvent,
  contacts: IconAddressBook,
  onedrive: IconFile,
};
