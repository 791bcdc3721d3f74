import { Select } from '@mantine/core';
import { queryOptions, useQuery } from '@tanstack/react-query';
import { apiQuery, ApiError, call, type Device } from '../../api/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { choicesOf, useOrganizations } from '../../directory.ts';
import { useMe } from '../../session.ts';
import { TextLink, type Address } from '../../ui/index.ts';

/** Names beside the ids of devices that the API of backup gives. */

const PAGE = 100;
const PAGES_MAX = 20;
const STALE_MS = 60_000;
const NONE: never[] = [];

export const deviceName = ({ displayName, hostname }: Pick<Device, 'displayName' | 'hostname'>): string =>
  displayName ?? hostname;

const devicesQuery = (orgId: string | undefined) =>
  queryOptions({
    queryKey: ['backup: devices', orgId],
    staleTime: STALE_MS,
    queryFn: async ({ signal }) => {
      const devices: Device[] = [];
      for (let page = 1; page <= PAGES_MAX; page++) {
        const query = { orgId, page: String(page), limit: String(PAGE), sort: 'hostname' } as const;
        const { data, pagination } = await call('GET /devices', { query }, { signal });
        devices.push(...data);
        if (devices.length >= pagination.total || data.length === 0) break;
      }
      return devices;
    },
  });

/** The devices of an organization, or of all; of a fleet of more than 2,000, the first ones. */
export const useDevices = (orgId?: string): readonly Device[] => useQuery(devicesQuery(orgId)).data ?? NONE;

export function useDeviceName(id: string): string {
  const { orgId } = useScope();
  const list = useQuery(devicesQuery(orgId));
  const known = list.data?.find((device) => device.id === id);
  const one = useQuery({
    ...apiQuery('GET /devices/{id}', { params: { id } }),
    staleTime: STALE_MS,
    enabled: known === undefined && !list.isPending,
  });
  const device = known ?? one.data;
  if (device !== undefined) return deviceName(device);
  return one.error instanceof ApiError && one.error.status === 404 ? 'Deleted device' : '…';
}

/** The name of a device, which leads to what is known of its backups. */
export function DeviceLink({ id }: { id: string }) {
  const name = useDeviceName(id);
  return (
    <TextLink
      inherit
      underline="always"
      to="/devices/$deviceId"
      params={{ deviceId: id }}
      search={{ tab: 'backup' }}
    >
      {name}
    </TextLink>
  );
}

export function DeviceSelect({
  value,
  onChange,
  label,
  orgId,
  error,
  description,
  hidesLabel = false,
}: {
  value: string | undefined;
  onChange: (id: string | undefined) => void;
  label: string;
  orgId?: string | undefined;
  error?: string | undefined;
  description?: string;
  hidesLabel?: boolean;
}) {
  const scope = scopeQuery(useScope());
  const devices = useDevices(orgId ?? scope.orgId);
  return (
    <Select
      {...(hidesLabel ? { 'aria-label': label, placeholder: label } : { label })}
      {...(description === undefined ? {} : { description })}
      clearable
      searchable
      limit={100}
      nothingFoundMessage="No such device"
      data={devices.map((device) => ({ value: device.id, label: deviceName(device) }))}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      error={error}
      comboboxProps={{ withinPortal: true }}
    />
  );
}

/** Narrows a list to one device. */
export const deviceFacet = (
  { search, narrow }: Address<{ device?: string | undefined }>,
  label = 'Any device',
) =>
  ({
    kind: 'own',
    name: 'device',
    control: (
      <DeviceSelect
        label={label}
        hidesLabel
        value={search.device}
        onChange={(device) => narrow({ device })}
      />
    ),
  }) as const;

export function OrganizationSelect({
  value,
  onChange,
  error,
}: {
  value: string | undefined;
  onChange: (id: string | undefined) => void;
  error?: string | undefined;
}) {
  const me = useMe();
  const organizations = useOrganizations();
  if (me.scope === 'organization') return null;
  return (
    <Select
      label="Organization"
      required
      searchable
      data={choicesOf(organizations)}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      error={error}
    />
  );
}

/** The key of the repositories, which cannot be changed afterwards. */
export function KeySelect({
  orgId,
  value,
  onChange,
  error,
}: {
  orgId: string | undefined;
  value: string | undefined;
  onChange: (id: string | undefined) => void;
  error: string | undefined;
}) {
  const keys = useQuery({
    ...apiQuery('GET /backup/encryption/keys', { query: { orgId, limit: '100' } }),
    enabled: orgId !== undefined,
  });
  const isMissing = keys.data?.data.length === 0;
  // A list that opens before it is read shows nothing, and closes when it comes.
  const isRead = keys.data !== undefined || keys.error !== null;
  return (
    <Select
      label="Encryption key"
      required
      disabled={!isRead}
      placeholder={
        isRead ? undefined : orgId === undefined ? 'First choose the organization' : 'Reading the keys …'
      }
      description={
        isMissing ? (
          <>
            The organization has no key.{' '}
            <TextLink inherit to="/backup/keys" search={{ org: orgId }}>
              Make one first
            </TextLink>
          </>
        ) : (
          'It cannot be changed afterwards, but it can be rotated.'
        )
      }
      data={(keys.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
      value={value ?? null}
      onChange={(next) => onChange(next ?? undefined)}
      error={error ?? keys.error?.message}
    />
  );
}
