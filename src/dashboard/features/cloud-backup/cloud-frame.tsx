import { IconAddressBook, IconCalendarEvent, IconFile, IconMail, type Icon } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { AreaPage, type PageProps } from '../../ui/index.ts';
import {
  type CloudBackupItem,
  apiQuery,
  type CloudBackupConfig,
  type CloudConnection,
} from '../../api/index.ts';

const PLACES = [
  { to: '/cloud-backup', label: 'Configurations' },
  { to: '/cloud-backup/items', label: 'Items' },
  { to: '/cloud-backup/jobs', label: 'Jobs' },
  { to: '/cloud-backup/connections', label: 'Connections' },
] as const;

/** The pages of cloud backup are one area: each has the way to the others. */
export const CloudFrame = (page: PageProps) => (
  <AreaPage {...page} label="Pages of cloud backup" places={PLACES} />
);

/** Names beside the ids that the API gives. An organization has at most 100 configurations and 20 connections. */

const limit = '100';
const STALE_MS = 30_000;
const NONE: never[] = [];

export const useCloudConfigs = (orgId: string | undefined) =>
  useQuery({ ...apiQuery('GET /c2c/configs', { query: { orgId, limit } }), staleTime: STALE_MS });

export const useCloudConnections = (orgId: string | undefined) =>
  useQuery({ ...apiQuery('GET /c2c/connections', { query: { orgId, limit } }), staleTime: STALE_MS });

/** The name of a configuration; one that was deleted has none. */
export function useConfigName(orgId: string | undefined): (id: string) => string {
  const { data } = useCloudConfigs(orgId);
  return nameIn<CloudBackupConfig>(data?.data, ({ name }) => name, 'Deleted configuration');
}

export function useConnectionName(orgId: string | undefined): (id: string) => string {
  const { data } = useCloudConnections(orgId);
  return nameIn<CloudConnection>(data?.data, ({ displayName }) => displayName, 'Deleted connection');
}

function nameIn<T extends { id: string }>(
  all: readonly T[] | undefined,
  nameOf: (one: T) => string,
  missing: string,
): (id: string) => string {
  const names = new Map((all ?? NONE).map((one) => [one.id, nameOf(one)]));
  return (id) => names.get(id) ?? (all === undefined ? '…' : missing);
}

export type Kind = CloudBackupItem['itemType'];

/** The kinds of data of a user that can be backed up. */
export const KINDS: readonly Kind[] = ['mail', 'calendar', 'contacts', 'onedrive'];

export const KIND_NAMES: Readonly<Record<Kind, string>> = {
  mail: 'Mail',
  calendar: 'Calendar',
  contacts: 'Contacts',
  onedrive: 'OneDrive',
};

/** The noun for one item of a kind. */
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
