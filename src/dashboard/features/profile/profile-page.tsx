import { Alert, Grid, Paper, Stack, Title } from '@mantine/core';
import { getRouteApi } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { formatWord, Page } from '../../ui/index.ts';
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
            <Section title="Name">
              <NameForm />
            </Section>
            <Section title="Second factor">
              <SecondFactor />
            </Section>
          </Stack>
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 6 }}>
          <Stack>
            <Section title="Password">
              <PasswordForm />
            </Section>
            <Section title="Single sign-on">
              <Identities />
            </Section>
          </Stack>
        </Grid.Col>
      </Grid>
      <Section title="Sessions">
        <Sessions />
      </Section>
    </Page>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Paper withBorder p="md" component="section" aria-label={title}>
      <Title order={2} size="h5" mb="sm">
        {title}
      </Title>
      {children}
    </Paper>
  );
}
