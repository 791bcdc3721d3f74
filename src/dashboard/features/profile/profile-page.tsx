import { Alert, Grid, Stack } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import { formatWord, Page, Panel } from '../../ui/index.ts';
import { Identities } from './identities.tsx';
import { NameForm } from './name-form.tsx';
import { PasswordForm } from './password-form.tsx';
import { SecondFactor } from './second-factor.tsx';
import { Sessions } from './sessions.tsx';

const route = getRouteApi('/signed-in/profile');

/** What belongs to the person: name, password, second factor, sessions and links to identity providers. */
export function ProfilePage() {
  const { sso, error, reason } = route.useSearch();
  return (
    <Page title="Your profile">
      {sso === 'linked' && <Alert color="teal">The account of your identity provider is linked.</Alert>}
      {error !== undefined && (
        <Alert color="red" role="alert" title="The account was not linked">
          {formatWord(reason ?? error)}
        </Alert>
      )}
      <Grid>
        <Grid.Col span={{ base: 12, md: 6 }}>
          <Stack>
            <Panel title="Name">
              <NameForm />
            </Panel>
            <Panel title="Two-factor authentication">
              <SecondFactor />
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
