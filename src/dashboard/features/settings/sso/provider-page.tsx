import { Anchor, Stack, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type SsoProvider } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { ConfirmAction, Loaded, Panel } from '../../../ui/index.ts';
import { SettingsFrame } from '../settings-frame.tsx';
import { Enforcement } from './enforcement.tsx';
import { ProviderSettings } from './provider-settings.tsx';
import { PROVIDER_READS, SSO_READ, SSO_WRITE } from './sso-permissions.ts';
import { ProviderStatus } from './provider-status.tsx';
import { ProviderTest } from './provider-test.tsx';

const route = getRouteApi('/signed-in/settings/sso/$providerId');

/** One identity provider: the steps from its settings to enforcement, in their order. */
export function ProviderPage() {
  return (
    <SettingsFrame
      title="Identity provider"
      description={
        <Anchor inherit renderRoot={(props) => <Link {...props} to="/settings/sso" />}>
          All providers
        </Anchor>
      }
      requires={SSO_READ}
    >
      <Provider />
    </SettingsFrame>
  );
}

function Provider() {
  const { providerId: id } = route.useParams();
  const provider = useQuery(apiQuery('GET /sso/providers/{id}', { params: { id } }));
  return (
    <Loaded query={provider} what="Reading the provider">
      {(data) => <Steps key={data.id} provider={data} />}
    </Loaded>
  );
}

function Steps({ provider }: { provider: SsoProvider }) {
  const names = useNames();
  /** The form begins anew with what the metadata of the provider said. */
  const [imports, setImports] = useState(0);
  const { name, orgId, type, status } = provider;
  const owner = orgId === null ? 'your own people' : names.organization(orgId);
  return (
    <Stack maw={760}>
      <Text component="div">
        <b>{name}</b>, {type === 'oidc' ? 'OpenID Connect' : 'SAML'}, for {owner}{' '}
        <ProviderStatus status={status} />
      </Text>
      <Panel title="1. Settings">
        <ProviderSettings key={imports} provider={provider} />
      </Panel>
      <Panel title="2. Test">
        <ProviderTest provider={provider} onImported={() => setImports(imports + 1)} />
      </Panel>
      <Panel title="3. Activate">
        <Activation provider={provider} />
      </Panel>
      <Panel title="4. Enforce">
        <Enforcement provider={provider} />
      </Panel>
      <DeleteProvider provider={provider} />
    </Stack>
  );
}

function Activation({ provider: { id, status } }: { provider: SsoProvider }) {
  const refusal = useRefusal(SSO_WRITE);
  const change = useApiChange('POST /sso/providers/{id}/status', { refreshes: PROVIDER_READS });
  const isActive = status === 'active';
  return (
    <>
      <Text size="sm">
        {isActive
          ? 'People can sign in by this provider.'
          : 'Nobody can sign in by this provider yet. Passwords go on working when it is active.'}
      </Text>
      <ConfirmAction
        style={{ alignSelf: 'flex-start' }}
        variant={isActive ? 'default' : 'filled'}
        refusal={refusal}
        color={isActive ? 'red' : 'blue'}
        title={isActive ? 'Deactivate the provider' : 'Activate the provider'}
        question={
          isActive
            ? 'Nobody can sign in by it any more. Whoever has no password cannot sign in at all.'
            : 'People see it on the sign-in page from now on.'
        }
        confirm={isActive ? 'Deactivate' : 'Activate'}
        run={() => change.mutateAsync({ params: { id }, body: { status: isActive ? 'inactive' : 'active' } })}
      >
        {isActive ? 'Deactivate' : 'Activate'}
      </ConfirmAction>
    </>
  );
}

function DeleteProvider({ provider: { id, name } }: { provider: SsoProvider }) {
  const refusal = useRefusal(SSO_WRITE);
  const navigate = useNavigate();
  const remove = useApiChange('DELETE /sso/providers/{id}', { refreshes: ['GET /sso/providers'] });
  return (
    <ConfirmAction
      variant="subtle"
      style={{ alignSelf: 'flex-start' }}
      refusal={refusal}
      title={`Delete “${name}”`}
      question="Nobody can sign in by it any more, and the links of accounts to it are gone. This cannot be undone."
      confirm="Delete"
      run={async () => {
        await remove.mutateAsync({ params: { id } });
        await navigate({ to: '/settings/sso' });
      }}
    >
      Delete the provider
    </ConfirmAction>
  );
}
