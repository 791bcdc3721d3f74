import { Group, Stack, Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, type CloudConnection, useList, apiQuery, call } from '../../api/index.ts';
import { useNames, useFirstOrganization, useOrganizationChoice } from '../../directory.ts';
import { scopeQuery, useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  StateBadge,
  useNow,
  When,
  TextLink,
  ListPage,
  useAddress,
  TwoLines,
  Failure,
  FormDialog,
  Loading,
  useForm,
  Notice,
} from '../../ui/index.ts';
import { CloudFrame, useCloudConfigs } from './cloud-frame.tsx';

const route = getRouteApi('/signed-in/cloud-backup/connections');

/** Directories of Microsoft 365 that Muster has access to. */
export function CloudConnectionsPage() {
  const address = useAddress(route.useSearch());
  const { page = 1, connected, c2c_error: fault } = address.search;
  const { orgId } = scopeQuery(useScope());
  const names = useNames();
  const write = useRefusal('backup:write');
  const [isConnecting, setConnecting] = useState(false);
  const [changed, setChanged] = useState<CloudConnection>();
  const connections = useList('GET /c2c/connections', { query: { orgId, page: String(page) } });
  const connect = (
    <Action refusal={write} icon={IconPlus} onClick={() => setConnecting(true)}>
      Connect a directory
    </Action>
  );
  return (
    <ListPage
      frame={CloudFrame}
      title="Cloud connections"
      description="Access to directories of Microsoft 365. Changes need two-factor authentication."
      actions={connect}
      notice={
        <ConsentOutcome
          connected={connected}
          fault={fault}
          onClose={() => address.set({ connected: undefined, c2c_error: undefined })}
        />
      }
      query={connections}
      noun="connections"
      label="Cloud connections"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No directory is connected',
        text: 'With a connection, Muster backs up mail, calendars, contacts and OneDrive of the users of a directory. Google Workspace cannot be backed up yet.',
        action: connect,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          width: 190,
          cell: ({ displayName, orgId: owner }) => (
            <TwoLines below={names.organization(owner)}>{displayName}</TwoLines>
          ),
        },
        {
          header: 'Directory and app',
          cell: ({ tenantId, authMethod, clientId }) => (
            <>
              <Text size="sm" style={{ overflowWrap: 'anywhere' }}>
                {tenantId}
              </Text>
              <Text size="xs" c="dimmed">
                {authMethod === 'platform_app' ? 'The app of this server' : `Own app ${clientId ?? ''}`}
              </Text>
            </>
          ),
        },
        { header: 'State', cell: (connection) => <ConnectionState connection={connection} /> },
        {
          header: 'Last backup',
          width: 125,
          cell: ({ lastSyncAt }) => <When at={lastSyncAt} />,
        },
        {
          header: 'Actions',
          align: 'right',
          cell: (connection) => (
            <ConnectionActions connection={connection} onChange={() => setChanged(connection)} />
          ),
        },
      ]}
    >
      {isConnecting && <ConnectDialog onClose={() => setConnecting(false)} />}
      {changed !== undefined && (
        <ChangeConnectionDialog connection={changed} onClose={() => setChanged(undefined)} />
      )}
    </ListPage>
  );
}

function ConnectionState({ connection: { status, error, throttledUntil } }: { connection: CloudConnection }) {
  const now = useNow();
  const isThrottled = throttledUntil !== null && Date.parse(throttledUntil) > now;
  return (
    <Stack gap={2} align="flex-start">
      {status === 'active' ? (
        <StateBadge tone="good" label="Active" />
      ) : (
        <StateBadge tone="bad" label="Refused" title="Microsoft has refused the app last time." />
      )}
      {error !== null && (
        <Text size="xs" c="dimmed" maw={320}>
          {error.message}
        </Text>
      )}
      {isThrottled && (
        <Text size="xs" c="dimmed">
          Microsoft asks to wait: <When at={throttledUntil} />.
        </Text>
      )}
    </Stack>
  );
}

function ConnectionActions({ connection, onChange }: { connection: CloudConnection; onChange: () => void }) {
  const { id, orgId, displayName, authMethod, status } = connection;
  const write = useRefusal('backup:write');
  const execute = useRefusal('backup:execute');
  const deleting = useRefusal('backup:delete');
  const configs = useCloudConfigs(orgId);
  const used = configs.data?.data.filter(({ connectionId }) => connectionId === id) ?? [];
  const refreshes = ['GET /c2c/connections'] as const;
  const test = useApiChange('POST /c2c/connections/{id}/test', { refreshes });
  const remove = useApiChange('DELETE /c2c/connections/{id}', { refreshes });
  const again = useMutation({ mutationFn: () => goToConsent(orgId, displayName) });
  const failure = test.error ?? again.error;
  const isUsed =
    used.length === 0
      ? undefined
      : `Configurations use it: ${used.map(({ name }) => name).join(', ')}. Delete them first.`;
  return (
    <Stack gap={2} align="flex-end">
      <Group gap={2} justify="flex-end" wrap="nowrap">
        <Action
          inRow
          refusal={execute}
          loading={test.isPending}
          onClick={() => test.mutate({ params: { id } })}
        >
          Test
        </Action>
        {authMethod === 'platform_app' && status === 'failing' && (
          <Action inRow refusal={write} loading={again.isPending} onClick={() => again.mutate()}>
            Consent again
          </Action>
        )}
        <Action inRow refusal={write} onClick={onChange}>
          Change
        </Action>
        <ConfirmAction
          inRow
          refusal={deleting ?? isUsed}
          title={`Disconnect “${displayName}”`}
          question="Muster forgets its access to the directory. What the app may do there ends only when an administrator removes it at Microsoft."
          confirm="Disconnect"
          run={() => remove.mutateAsync({ params: { id } })}
        >
          Disconnect
        </ConfirmAction>
      </Group>
      <Text size="xs" role="status" {...(failure === null ? {} : { c: 'red' })}>
        {failure !== null
          ? failure.message
          : test.data === undefined
            ? ''
            : test.data.status === 'success'
              ? 'Microsoft answers.'
              : 'Microsoft refuses: see the state.'}
      </Text>
    </Stack>
  );
}

const AGAIN = 'Begin again, in this browser.';
/** Why a consent has led to no connection, as the server says it in the address. */
const FAULTS: Readonly<Record<string, string>> = {
  state_unknown: `The consent was not begun in this browser, or it took longer than 15 minutes. ${AGAIN}`,
  consent_refused: 'The consent was refused at Microsoft. Nothing was connected.',
  answer_invalid: `Microsoft did not say which directory it is. ${AGAIN}`,
  code_refused: `Microsoft did not confirm the sign-in. ${AGAIN}`,
  token_invalid: 'The sign-in was to another directory than the one that was consented to.',
  administrator_required:
    'The person who signed in is no administrator of the directory. A global, privileged role, application or cloud application administrator has to do it.',
  provider_unreachable: 'Microsoft could not be reached. Try again later.',
  session_expired: 'You were signed out meanwhile. Sign in, and begin again.',
  forbidden: 'Your role no longer allows you to connect directories of this organization.',
  limit_reached: 'The organization has as many connections as it may have. Disconnect one first.',
  rate_limited: 'There were too many attempts. Wait a minute, and begin again.',
};

function ConsentOutcome({
  connected,
  fault,
  onClose,
}: {
  connected: string | undefined;
  fault: string | undefined;
  onClose: () => void;
}) {
  if (fault !== undefined) {
    return (
      <Notice tone="bad" onClose={onClose} title="The directory was not connected" role="alert">
        <Text size="sm">{FAULTS[fault] ?? `Something failed on the server. ${AGAIN}`}</Text>
      </Notice>
    );
  }
  if (connected === undefined) return null;
  return (
    <Notice tone="good" onClose={onClose} title="The directory is connected" role="status">
      <Text size="sm">
        Nothing is backed up yet.{' '}
        <TextLink inherit underline="always" c="var(--mantine-color-text)" to="/cloud-backup">
          Make a configuration
        </TextLink>{' '}
        that says what is backed up.
      </Text>
    </Notice>
  );
}

const PERMISSIONS =
  'User.Read.All, Mail.ReadWrite, Calendars.ReadWrite, Contacts.ReadWrite, Files.ReadWrite.All';

/** Leads to the consent at Microsoft, from where the browser comes back to the page of connections. */
async function goToConsent(orgId: string, displayName: string): Promise<void> {
  const { url } = await call('GET /c2c/m365/consent-url', {
    query: { orgId, displayName: displayName === '' ? undefined : displayName },
  });
  window.location.assign(url);
}

interface NewConnection {
  orgId: string | undefined;
  /** By the app of the server, or by one of the organization's own. */
  way: 'server' | 'own' | undefined;
  displayName: string;
  tenantId: string;
  clientId: string;
  clientSecret: string;
}

/** Connects a directory by the app of this server, or by an app of the organization. */
function ConnectDialog({ onClose }: { onClose: () => void }) {
  const first = useFirstOrganization();
  const organization = useOrganizationChoice();
  const server = useQuery(apiQuery('GET /c2c/m365/config'));
  const hasApp = server.data?.platformAppAvailable === true;
  const form = useForm<NewConnection>({
    orgId: undefined,
    way: undefined,
    displayName: '',
    tenantId: '',
    clientId: '',
    clientSecret: '',
  });
  const create = useApiChange('POST /c2c/connections', { refreshes: ['GET /c2c/connections'] });
  const { orgId = first ?? '', way = hasApp ? 'server' : 'own', displayName, clientSecret } = form.values;
  const isOwn = way === 'own';
  const submit = () => {
    if (!isOwn) return goToConsent(orgId, displayName);
    const [tenantId, clientId] = [form.values.tenantId.trim(), form.values.clientId.trim()];
    return create.mutateAsync({
      body: { displayName, clientSecret, tenantId, clientId, orgId, provider: 'microsoft_365' },
    });
  };
  const id = { required: true, placeholder: '00000000-0000-0000-0000-000000000000' };
  return (
    <FormDialog
      title="Connect a directory of Microsoft 365"
      size="lg"
      onClose={onClose}
      submitLabel={isOwn ? 'Connect' : 'Go on at Microsoft'}
      submit={submit}
      form={form}
      fields={[
        organization && { name: 'orgId', ...organization, shown: orgId },
        server.isPending && { note: 'pending', text: <Loading /> },
        server.error !== null && { note: 'failure', text: <Failure error={server.error} /> },
        {
          name: 'way',
          kind: 'radio',
          label: 'By which app',
          shown: way,
          empty: undefined,
          options: [
            {
              value: 'server',
              disabled: !hasApp,
              label: 'The app of this server',
              description: hasApp
                ? 'An administrator of the directory signs in at Microsoft and consents.'
                : 'This server has none: its operator sets C2C_M365_CLIENT_ID and C2C_M365_CLIENT_SECRET.',
            },
            {
              value: 'own',
              label: 'An app of your own',
              description: 'You have registered an app in Microsoft Entra, with application permissions.',
            },
          ],
        },
        {
          name: 'displayName',
          label: 'Name',
          description: 'How the connection is called in Muster.',
          required: isOwn,
          placeholder: isOwn ? 'Example Ltd' : 'Microsoft 365',
        },
        isOwn && [
          { name: 'tenantId', label: 'Directory (tenant) id', ...id },
          { name: 'clientId', label: 'Application (client) id', ...id },
        ],
        isOwn && {
          name: 'clientSecret',
          kind: 'password',
          label: 'Client secret',
          description: 'Its value, not its id. It is stored sealed, and never shown.',
          required: true,
        },
        {
          note: 'way',
          text: isOwn ? (
            <Notice tone="neutral">
              <Text size="xs">
                Application permissions that the app needs, with the consent of an administrator:{' '}
                {PERMISSIONS}. For backups alone, those with Read suffice.
              </Text>
            </Notice>
          ) : (
            'You leave Muster. Afterwards, the same administrator signs in once more, which proves whose directory it is, and you come back to this page.'
          ),
        },
      ]}
    />
  );
}

/** Renames a connection, or gives it the secret that takes the place of an expired one. */
function ChangeConnectionDialog({
  connection: { id, displayName, authMethod, tenantId, clientId: shownClientId },
  onClose,
}: {
  connection: CloudConnection;
  onClose: () => void;
}) {
  const form = useForm({ displayName, clientSecret: '', clientId: '' });
  const change = useApiChange('PATCH /c2c/connections/{id}', { refreshes: ['GET /c2c/connections'] });
  const submit = () => {
    const { clientSecret, ...values } = form.values;
    const clientId = values.clientId.trim();
    return change.mutateAsync({
      params: { id },
      body: {
        displayName: values.displayName,
        ...(clientSecret === '' ? {} : { clientSecret }),
        ...(clientId === '' ? {} : { clientId }),
      },
    });
  };
  return (
    <FormDialog
      title={`Change “${displayName}”`}
      onClose={onClose}
      submitLabel="Save"
      submit={submit}
      form={form}
      fields={[
        { name: 'displayName', label: 'Name', required: true },
        authMethod === 'manual' && {
          name: 'clientSecret',
          kind: 'password',
          label: 'New client secret',
          description: 'Empty: the stored one stays.',
        },
        authMethod === 'manual' && {
          name: 'clientId',
          label: 'Application (client) id of another app',
          description: `Only with a new secret. Empty: ${shownClientId ?? 'the stored one'} stays.`,
        },
      ]}
    >
      {() => (
        <Text size="sm" c="dimmed">
          The directory {tenantId} stays: connect another one by a connection of its own.
        </Text>
      )}
    </FormDialog>
  );
}
