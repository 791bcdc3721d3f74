import { Grid, Stack, Button, TextInput, PasswordInput, Group, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import {
  formatWord,
  Page,
  Panel,
  Failure,
  useSubmit,
  Action,
  ConfirmAction,
  Loaded,
  When,
  PagedTable,
  StateBadge,
  Notice,
} from '../../ui/index.ts';
import { call, apiQuery, useApiChange } from '../../api/index.ts';
import { readMe, useMe } from '../../session.ts';
import { OwnNotifications } from '../notifications/index.ts';
import { Passkeys } from './passkeys.tsx';
import { SecondFactor } from './second-factor.tsx';

const route = getRouteApi('/signed-in/profile');

/** The account of the signed-in person: name, password, passkeys, second factor, notifications, sessions and links to identity providers. */
export function ProfilePage() {
  const { sso, error, reason } = route.useSearch();
  return (
    <Page title="Your profile">
      {sso === 'linked' && <Notice tone="good">The account of your identity provider is linked.</Notice>}
      {error !== undefined && (
        <Notice tone="bad" role="alert" title="The account was not linked">
          {formatWord(reason ?? error)}
        </Notice>
      )}
      <Grid>
        <Grid.Col span={{ base: 12, md: 6 }}>
          <Stack>
            <Panel title="Name">
              <NameForm />
            </Panel>
            <Panel title="Passkeys">
              <Passkeys />
            </Panel>
            <Panel title="Two-factor authentication">
              <SecondFactor />
            </Panel>
            <Panel title="Notifications">
              <OwnNotifications />
            </Panel>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 6 }}>
          <Stack>
            <Panel title="Password">
              <PasswordForm />
            </Panel>
            <Panel title="Single sign-on">
              <Identities />
            </Panel>
          </Stack>
        </Grid.Col>
      </Grid>
      <Panel title="Sessions">
        <Sessions />
      </Panel>
    </Page>
  );
}

function NameForm() {
  const me = useMe();
  const [name, setName] = useState(me.user.name);
  const [isSaved, setSaved] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    setSaved(false);
    await call('PATCH /users/me', { body: { name } });
    await readMe();
    setSaved(true);
  });
  return (
    <form onSubmit={onSubmit}>
      <Stack align="flex-start">
        <TextInput
          label="Name"
          required
          w="100%"
          autoComplete="name"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          error={faults['name']}
          description={me.user.email}
        />
        {failure !== undefined && <Failure error={failure} />}
        {isSaved && <Notice tone="good">Your name is saved.</Notice>}
        <Button type="submit" loading={isBusy}>
          Save
        </Button>
      </Stack>
    </form>
  );
}

function PasswordForm() {
  const [currentPassword, setCurrent] = useState('');
  const [newPassword, setNew] = useState('');
  const [isSaved, setSaved] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    setSaved(false);
    await call('POST /auth/change-password', { body: { currentPassword, newPassword } });
    setCurrent('');
    setNew('');
    setSaved(true);
  });
  return (
    <form onSubmit={onSubmit}>
      <Stack align="flex-start">
        <PasswordInput
          label="Current password"
          required
          w="100%"
          autoComplete="current-password"
          value={currentPassword}
          onChange={(event) => setCurrent(event.currentTarget.value)}
          error={faults['currentPassword']}
        />
        <PasswordInput
          label="New password"
          description="At least 8 characters, with a small letter, a capital letter and a digit."
          required
          w="100%"
          autoComplete="new-password"
          value={newPassword}
          onChange={(event) => setNew(event.currentTarget.value)}
          error={faults['newPassword']}
        />
        {failure !== undefined && <Failure error={failure} />}
        {isSaved && (
          <Notice tone="good">Your password is changed, and your other sessions have ended.</Notice>
        )}
        <Button type="submit" loading={isBusy}>
          Change the password
        </Button>
      </Stack>
    </form>
  );
}

const sessionReads = ['GET /auth/sessions'] as const;

function Sessions() {
  const sessions = useQuery(apiQuery('GET /auth/sessions', { query: { limit: '100' } }));
  const end = useApiChange('DELETE /auth/sessions/{id}', { refreshes: sessionReads });
  const endOthers = useApiChange('DELETE /auth/sessions', { refreshes: sessionReads });
  return (
    <Loaded query={sessions} what="Reading your sessions">
      {({ data }) => (
        <Stack gap="sm">
          <PagedTable
            label="Sessions"
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              {
                header: 'Program',
                isName: true,
                cell: ({ userAgent, current }) => (
                  <Group gap="xs">
                    <Text size="sm">{programOf(userAgent)}</Text>
                    {current && <StateBadge tone="good" label="This one" />}
                  </Group>
                ),
              },
              { header: 'Address', cell: ({ ipAddress }) => ipAddress ?? 'Unknown' },
              { header: 'Started', cell: ({ createdAt }) => <When at={createdAt} /> },
              { header: 'Last used', cell: ({ lastUsedAt }) => <When at={lastUsedAt} /> },
              {
                header: 'Actions',
                align: 'right',
                cell: ({ id, current }) =>
                  !current && (
                    <ConfirmAction
                      inRow
                      title="End this session"
                      question="The person or program that uses it has to sign in again."
                      confirm="End"
                      run={() => end.mutateAsync({ params: { id } })}
                    >
                      End
                    </ConfirmAction>
                  ),
              },
            ]}
          />
          {data.length > 1 && (
            <Group>
              <ConfirmAction
                variant="default"
                title="End all other sessions"
                question="Everywhere else, you have to sign in again."
                confirm="End them"
                run={() => endOthers.mutateAsync({})}
              >
                End all other sessions
              </ConfirmAction>
            </Group>
          )}
        </Stack>
      )}
    </Loaded>
  );
}

const BROWSERS = ['Firefox', 'Edg', 'OPR', 'Chrome', 'Safari'];
const SYSTEMS = ['Windows', 'Android', 'iPhone', 'iPad', 'Mac OS', 'Linux'];

/** "Chrome on Linux", as far as the browser says it. */
function programOf(userAgent: string | null): string {
  if (userAgent === null) return 'Unknown';
  const browser = BROWSERS.find((name) => userAgent.includes(name));
  if (browser === undefined) return userAgent.slice(0, 60);
  const system = SYSTEMS.find((name) => userAgent.includes(name));
  const name = browser === 'Edg' ? 'Edge' : browser === 'OPR' ? 'Opera' : browser;
  return system === undefined ? name : `${name} on ${system}`;
}

const identityReads = ['GET /sso/identities', 'GET /sso/link/options'] as const;

/** The accounts of identity providers with which the person can sign in. */
function Identities() {
  const identities = useQuery(apiQuery('GET /sso/identities'));
  const options = useQuery(apiQuery('GET /sso/link/options'));
  const unlink = useApiChange('DELETE /sso/identities/{id}', { refreshes: identityReads });
  const start = useApiChange('POST /sso/link/start/{providerId}');
  const link = (providerId: string) =>
    start.mutate({ params: { providerId } }, { onSuccess: ({ url }) => window.location.assign(url) });
  const free = options.data?.data.filter(({ linked }) => !linked) ?? [];
  return (
    <Loaded query={identities} what="Reading your links">
      {({ data }) => (
        <Stack gap="xs">
          {data.length === 0 && free.length === 0 && (
            <Text size="sm" c="dimmed">
              Your organization has no single sign-on.
            </Text>
          )}
          {data.map(({ id, provider, email, lastLoginAt }) => (
            <Group key={id} justify="space-between">
              <Text size="sm">
                {provider?.name ?? 'A provider that was removed'} {email !== null && `(${email})`}, last used{' '}
                <When at={lastLoginAt} />
              </Text>
              <ConfirmAction
                inRow
                title="Remove the link"
                question="You can no longer sign in with this account, until you link it again."
                confirm="Remove"
                run={() => unlink.mutateAsync({ params: { id } })}
              >
                Remove
              </ConfirmAction>
            </Group>
          ))}
          {free.map(({ id, name }) => (
            <Group key={id}>
              <Action variant="default" onClick={() => link(id)}>
                Link {name}
              </Action>
            </Group>
          ))}
        </Stack>
      )}
    </Loaded>
  );
}
