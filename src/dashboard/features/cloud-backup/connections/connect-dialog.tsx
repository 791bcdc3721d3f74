import { Alert, PasswordInput, Radio, SimpleGrid, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, call, useApiChange } from '../../../api/index.ts';
import { Failure, FormDialog, Loading } from '../../../ui/index.ts';
import { OrganizationSelect, useFirstOrganization } from '../../backup/index.ts';

const PERMISSIONS =
  'User.Read.All, Mail.ReadWrite, Calendars.ReadWrite, Contacts.ReadWrite, Files.ReadWrite.All';

/** Leads to the consent at Microsoft, from where the browser comes back to the page of connections. */
export async function goToConsent(orgId: string, displayName: string): Promise<void> {
  const { url } = await call('GET /c2c/m365/consent-url', {
    query: { orgId, displayName: displayName === '' ? undefined : displayName },
  });
  window.location.assign(url);
}

/** Connects a directory by the app of this server, or by an app of the organization. */
export function ConnectDialog({ onClose }: { onClose: () => void }) {
  const first = useFirstOrganization();
  const server = useQuery(apiQuery('GET /c2c/m365/config'));
  const hasApp = server.data?.platformAppAvailable === true;
  const [chosen, setChosen] = useState<'server' | 'own'>();
  const [org, setOrg] = useState<string>();
  const [form, setForm] = useState({ displayName: '', tenantId: '', clientId: '', clientSecret: '' });
  const create = useApiChange('POST /c2c/connections', { refreshes: ['GET /c2c/connections'] });
  const orgId = org ?? first;
  const way = chosen ?? (hasApp ? 'server' : 'own');
  const field = (name: keyof typeof form) => ({
    value: form[name],
    onChange: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget;
      setForm((before) => ({ ...before, [name]: value }));
    },
  });
  return (
    <FormDialog
      title="Connect a directory of Microsoft 365"
      size="lg"
      opened
      onClose={onClose}
      submitLabel={way === 'server' ? 'Go on at Microsoft' : 'Connect'}
      submit={() =>
        way === 'server'
          ? goToConsent(orgId ?? '', form.displayName)
          : create.mutateAsync({
              body: {
                ...form,
                tenantId: form.tenantId.trim(),
                clientId: form.clientId.trim(),
                orgId: orgId ?? '',
                provider: 'microsoft_365',
              },
            })
      }
    >
      {(faults) => (
        <>
          <OrganizationSelect
            value={orgId}
            onChange={setOrg}
            error={faults['orgId'] ?? faults['query.orgId']}
          />
          {server.isPending && <Loading />}
          {server.error !== null && <Failure error={server.error} />}
          <Radio.Group
            label="By which app"
            value={way}
            onChange={(value) => setChosen(value === 'server' ? 'server' : 'own')}
          >
            <Stack gap="xs" mt="xs">
              <Radio
                value="server"
                disabled={!hasApp}
                label="The app of this server"
                description={
                  hasApp
                    ? 'An administrator of the directory signs in at Microsoft and consents.'
                    : 'This server has none: its operator sets C2C_M365_CLIENT_ID and C2C_M365_CLIENT_SECRET.'
                }
              />
              <Radio
                value="own"
                label="An app of your own"
                description="You have registered an app in Microsoft Entra, with application permissions."
              />
            </Stack>
          </Radio.Group>
          <TextInput
            label="Name"
            description="How the connection is called in Muster."
            required={way === 'own'}
            placeholder={way === 'server' ? 'Microsoft 365' : 'Example Ltd'}
            {...field('displayName')}
            error={faults['displayName']}
            data-autofocus
          />
          {way === 'own' ? (
            <>
              <SimpleGrid cols={{ base: 1, sm: 2 }}>
                <TextInput
                  label="Directory (tenant) id"
                  required
                  placeholder="00000000-0000-0000-0000-000000000000"
                  {...field('tenantId')}
                  error={faults['tenantId']}
                />
                <TextInput
                  label="Application (client) id"
                  required
                  placeholder="00000000-0000-0000-0000-000000000000"
                  {...field('clientId')}
                  error={faults['clientId']}
                />
              </SimpleGrid>
              <PasswordInput
                label="Client secret"
                description="Its value, not its id. It is stored sealed, and never shown."
                required
                autoComplete="off"
                {...field('clientSecret')}
                error={faults['clientSecret']}
              />
              <Alert color="gray" p="xs">
                <Text size="xs">
                  Application permissions that the app needs, with the consent of an administrator:{' '}
                  {PERMISSIONS}. For backups alone, those with Read suffice.
                </Text>
              </Alert>
            </>
          ) : (
            <Text size="sm">
              You leave Muster. Afterwards, the same administrator signs in once more, which proves whose
              directory it is, and you come back to this page.
            </Text>
          )}
        </>
      )}
    </FormDialog>
  );
}
