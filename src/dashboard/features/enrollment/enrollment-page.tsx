import { Text, Group, Loader, Paper, Stack, Title, Tabs } from '@mantine/core';
import { IconKey, IconPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import {
  useApiChange,
  type EnrollmentKey,
  useRefreshOn,
  useList,
  apiQuery,
  type AgentRelease,
} from '../../api/index.ts';
import {
  useNames,
  useOrganizations,
  choicesOf,
  useFirstOrganization,
  useOrganizationChoice,
  useSites,
} from '../../directory.ts';
import { useLiveDevices } from '../../live/index.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal, useMe } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  Panel,
  StateBadge,
  useNow,
  When,
  DeviceStatusBadge,
  TextLink,
  ButtonLink,
  ListPage,
  useAddress,
  FormDialog,
  useForm,
  CopyText,
  Loaded,
  SYSTEM_NAMES,
  Notice,
} from '../../ui/index.ts';
import { useQuery } from '@tanstack/react-query';

const route = getRouteApi('/signed-in/enrollment');

/** From a key to a managed machine, on one page. */
export function EnrollmentPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const [made, setMade] = useState<string>();
  const hasOrganization = useOrganizations().length > 0;
  const mayWrite = useRefusal('agents:write');
  const refusal =
    mayWrite ??
    (hasOrganization ? undefined : 'A key belongs to an organization. Create an organization first.');
  const keys = useList('GET /enrollment-keys', {
    query: { page: String(address.search.page ?? 1), orgId },
  });
  const newKey = (
    <Action refusal={refusal} icon={IconPlus} onClick={() => address.put({ dialog: 'new' })}>
      New key
    </Action>
  );
  return (
    <ListPage
      title="Enrollment"
      description="A key lets a machine join one organization. One line installs the agent with it."
      actions={newKey}
      notice={
        <>
          {made !== undefined && (
            <Panel title="Install the agent" label="The new key">
              <InstallLines enrollmentKey={made} />
              <Notice tone="warning" icon={IconKey}>
                The key is shown only now. Anyone who has it can add machines to the organization.
              </Notice>
            </Panel>
          )}
          <WaitingRoom />
        </>
      }
      query={keys}
      noun="enrollment keys"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No enrollment keys',
        text: 'Create a key, run the line that it gives on a machine, and watch it arrive.',
        action: hasOrganization ? (
          newKey
        ) : (
          <ButtonLink to="/organizations">Create an organization first</ButtonLink>
        ),
      }}
      columns={[
        { header: 'Name', isName: true, cell: ({ name }) => name },
        { header: 'Prefix', cell: ({ keyPrefix }) => keyPrefix },
        { header: 'Organization', cell: (key) => names.organization(key.orgId) },
        { header: 'Site', cell: ({ siteId }) => (siteId === null ? 'First site' : names.site(siteId)) },
        {
          header: 'Used',
          align: 'right',
          cell: ({ usageCount, maxUsage }) =>
            maxUsage === null ? usageCount : `${usageCount} of ${maxUsage}`,
        },
        { header: 'State', cell: (key) => <KeyState enrollmentKey={key} /> },
        {
          header: 'Actions',
          align: 'right',
          cell: (key) => <KeyActions enrollmentKey={key} refusal={refusal} onRotated={setMade} />,
        },
      ]}
    >
      {address.search.dialog === 'new' && refusal === undefined && (
        <NewKeyDialog onClose={() => address.put({ dialog: undefined })} onMade={setMade} />
      )}
    </ListPage>
  );
}

function KeyActions({
  enrollmentKey: { id, name, revokedAt },
  refusal,
  onRotated,
}: {
  enrollmentKey: EnrollmentKey;
  refusal: string | undefined;
  onRotated: (key: string) => void;
}) {
  const revoke = useApiChange('DELETE /enrollment-keys/{id}', { refreshes: ['GET /enrollment-keys'] });
  const rotate = useApiChange('POST /enrollment-keys/{id}/rotate', { refreshes: ['GET /enrollment-keys'] });
  if (revokedAt !== null) return null;
  return (
    <>
      <ConfirmAction
        inRow
        refusal={refusal}
        title={`Replace “${name}”`}
        question="A new key takes the place of this one, which works no longer. Devices that are enrolled stay."
        confirm="Replace"
        color="blue"
        run={async () => onRotated((await rotate.mutateAsync({ params: { id } })).key)}
      >
        Replace
      </ConfirmAction>
      <ConfirmAction
        inRow
        refusal={refusal}
        title={`Revoke “${name}”`}
        question="No device can be enrolled with this key any more. Devices that are enrolled stay."
        confirm="Revoke"
        run={() => revoke.mutateAsync({ params: { id } })}
      >
        Revoke
      </ConfirmAction>
    </>
  );
}

function KeyState({
  enrollmentKey: { revokedAt, expiresAt, maxUsage, usageCount },
}: {
  enrollmentKey: EnrollmentKey;
}) {
  const now = useNow();
  if (revokedAt !== null) return <StateBadge tone="neutral" label="Revoked" />;
  if (expiresAt !== null && Date.parse(expiresAt) < now) return <StateBadge tone="neutral" label="Expired" />;
  if (maxUsage !== null && usageCount >= maxUsage) return <StateBadge tone="neutral" label="Used up" />;
  return (
    <>
      <StateBadge tone="good" label="Valid" />
      {expiresAt !== null && (
        <Text size="xs" c="dimmed">
          ends <When at={expiresAt} />
        </Text>
      )}
    </>
  );
}

/** Lists the devices that arrive while the page is open, to confirm the installation. */
function WaitingRoom() {
  const live = useLiveDevices(scopeQuery(useScope()));
  const names = useNames();
  const [known, setKnown] = useState<ReadonlySet<string>>();
  if (known === undefined && live.state === 'live' && live.complete) {
    setKnown(new Set(live.devices.map(({ id }) => id)));
  }
  const arrived = live.devices.filter(({ id }) => known?.has(id) === false);
  // Each has used a key.
  useRefreshOn(String(arrived.length), ['GET /enrollment-keys']);
  return (
    <Paper withBorder p="md" component="section" aria-label="Waiting room">
      <Stack gap="xs">
        <Group gap="xs">
          <Loader size="xs" aria-hidden />
          <Title order={2} size="h5">
            Waiting room
          </Title>
        </Group>
        <Stack gap={6} role="log" aria-label="Devices that have arrived">
          {arrived.length === 0 ? (
            <Text size="sm" c="dimmed">
              Run the line on a machine, and it appears here a few seconds later.
            </Text>
          ) : (
            arrived.map((device) => (
              <Group key={device.id} gap="sm">
                <DeviceStatusBadge status={device.status} />
                <TextLink size="sm" fw={600} to="/devices/$deviceId" params={{ deviceId: device.id }}>
                  {device.hostname}
                </TextLink>
                <Text size="sm" c="dimmed">
                  {names.organization(device.orgId)}, {names.site(device.siteId)}
                </Text>
              </Group>
            ))
          )}
        </Stack>
      </Stack>
    </Paper>
  );
}

const DAY_MS = 86_400_000;
const LIVES = [
  { value: '1', label: 'One day' },
  { value: '7', label: 'One week' },
  { value: '30', label: '30 days' },
  { value: 'ever', label: 'Until it is revoked' },
] as const;

interface NewKey {
  orgId: string | undefined;
  siteId: string | undefined;
  name: string;
  maxUsage: number | undefined;
  life: (typeof LIVES)[number]['value'];
}

function NewKeyDialog({ onClose, onMade }: { onClose: () => void; onMade: (key: string) => void }) {
  const { siteId: shownSite } = useScope();
  const organization = useOrganizationChoice();
  const first = useFirstOrganization();
  const form = useForm<NewKey>({
    orgId: undefined,
    siteId: shownSite,
    name: '',
    maxUsage: undefined,
    life: '7',
  });
  const { orgId = first ?? '', siteId, name, maxUsage, life } = form.values;
  const sites = useSites(orgId);
  const create = useApiChange('POST /enrollment-keys', { refreshes: ['GET /enrollment-keys'] });
  const submit = async () => {
    const { key } = await create.mutateAsync({
      body: {
        orgId,
        name,
        ...(siteId === undefined ? {} : { siteId }),
        ...(maxUsage === undefined ? {} : { maxUsage }),
        ...(life === 'ever' ? {} : { expiresAt: new Date(Date.now() + Number(life) * DAY_MS).toISOString() }),
      },
    });
    onMade(key);
  };
  return (
    <FormDialog
      title="New enrollment key"
      onClose={onClose}
      submit={submit}
      submitLabel="Create key"
      form={form}
      fields={[
        organization && {
          name: 'orgId',
          ...organization,
          shown: orgId,
          resets: { siteId: undefined },
        },
        {
          name: 'siteId',
          kind: 'choice',
          label: 'Site',
          description: 'Where the devices belong. Without a site, they join the first one.',
          isSearchable: true,
          options: choicesOf(sites),
          empty: undefined,
        },
        {
          name: 'name',
          label: 'Name',
          description: 'For whom or what it is, such as “Notebooks, spring”.',
          required: true,
        },
        {
          name: 'maxUsage',
          kind: 'number',
          label: 'How many devices',
          description: 'Empty: as many as the organization may have.',
          min: 1,
          empty: undefined,
        },
        { name: 'life', kind: 'choice', label: 'Valid for', options: LIVES, fault: 'expiresAt' },
      ]}
    />
  );
}

/** The command that enrolls a machine. Its script compares the SHA-256 of each download. */
const installLine = {
  unix: (server: string, key: string): string =>
    `curl -fsSL '${server}/install.sh?key=${encodeURIComponent(key)}' | sudo sh`,
  windows: (server: string, key: string): string =>
    `irm '${server}/install.ps1?key=${encodeURIComponent(key)}' | iex`,
};

/** One line for each system that a release is there for, with the key filled in. That of this browser is shown first. */
function InstallLines({ enrollmentKey }: { enrollmentKey: string }) {
  const releases = useQuery(
    apiQuery('GET /agent-versions', { query: { component: 'watchdog', limit: '100' } }),
  );
  return (
    <Loaded query={releases} what="Reading releases">
      {({ data }) => {
        const systems = new Set(data.filter(({ promoted }) => promoted).map(({ os }) => os));
        return systems.size === 0 ? (
          <NoRelease enrollmentKey={enrollmentKey} />
        ) : (
          <Lines enrollmentKey={enrollmentKey} systems={systems} />
        );
      }}
    </Loaded>
  );
}

/** The key is shown once, so it is shown here too: an agent that is installed by hand can enroll with it. */
function NoRelease({ enrollmentKey }: { enrollmentKey: string }) {
  const { scope } = useMe();
  return (
    <Stack gap="xs">
      <Notice tone="warning" title="No agent can be installed yet">
        <Text size="sm">
          No release of the agent is promoted on this server, so there is no install line.{' '}
          {scope === 'system' ? (
            <>
              <TextLink inherit to="/agents">
                Register one
              </TextLink>
              ; the line is shown here then, as long as this page stays open.
            </>
          ) : (
            'Ask a system administrator of this server to register one.'
          )}
        </Text>
      </Notice>
      <Text size="sm">The key, for an agent that is installed in another way:</Text>
      <CopyText label="Enrollment key" text={enrollmentKey} />
    </Stack>
  );
}

function Lines({
  enrollmentKey,
  systems,
}: {
  enrollmentKey: string;
  systems: ReadonlySet<AgentRelease['os']>;
}) {
  const { origin: server, hostname } = window.location;
  const isWindows = navigator.userAgent.includes('Windows');
  const hasUnix = systems.has('linux') || systems.has('macos');
  const hasWindows = systems.has('windows');
  const unixNames = (['linux', 'macos'] as const)
    .filter((os) => systems.has(os))
    .map((os) => SYSTEM_NAMES[os]);
  return (
    <Stack gap="xs">
      <Tabs defaultValue={hasWindows && (isWindows || !hasUnix) ? 'windows' : 'unix'} keepMounted={false}>
        <Tabs.List>
          {hasUnix && <Tabs.Tab value="unix">{unixNames.join(' and ')}</Tabs.Tab>}
          {hasWindows && <Tabs.Tab value="windows">Windows</Tabs.Tab>}
        </Tabs.List>
        <Tabs.Panel value="unix" pt="sm">
          <Stack gap={4}>
            <Text size="sm">In a terminal:</Text>
            <CopyText
              label={`Installation on ${unixNames.join(' and ')}`}
              text={installLine.unix(server, enrollmentKey)}
            />
          </Stack>
        </Tabs.Panel>
        <Tabs.Panel value="windows" pt="sm">
          <Stack gap={4}>
            <Text size="sm">In PowerShell, as an administrator:</Text>
            <CopyText label="Installation on Windows" text={installLine.windows(server, enrollmentKey)} />
          </Stack>
        </Tabs.Panel>
      </Tabs>
      {isLoopback(hostname) && (
        <Text size="sm">
          This line is for the machine of the server itself, because others cannot reach {hostname}. For them,
          give the server an address that they reach (PUBLIC_URL), and open the dashboard there.
        </Text>
      )}
    </Stack>
  );
}

/** Whether an address leads to the machine itself, whichever that is. */
const isLoopback = (hostname: string): boolean => /^(localhost|127\..*|\[::1\])$/.test(hostname);
