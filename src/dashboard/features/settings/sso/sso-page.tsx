import { Anchor, Stack, Title } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { apiQuery } from '../../../api/index.ts';
import { useNames } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Empty, Loaded, PagedTable, When } from '../../../ui/index.ts';
import { SettingsFrame } from '../settings-frame.tsx';
import { Domains } from './domains.tsx';
import { NewProviderDialog } from './new-provider-dialog.tsx';
import { ProviderStatus } from './provider-status.tsx';
import { SSO_READ, SSO_WRITE } from './sso-permissions.ts';

/** Sign-in by the identity provider of the own company or of a customer. */
export function SsoPage() {
  const [isOpen, { open, close }] = useDisclosure(false);
  const refusal = useRefusal(SSO_WRITE);
  const add = (
    <Action refusal={refusal} leftSection={<IconPlus size={14} aria-hidden />} onClick={open}>
      New provider
    </Action>
  );
  return (
    <SettingsFrame
      title="Single sign-on"
      description="People sign in with the identity provider of their company."
      actions={add}
      requires={SSO_READ}
    >
      <Stack>
        <Title order={2} size="h5">
          Identity providers
        </Title>
        <Providers add={add} />
        <Domains />
      </Stack>
      {isOpen && <NewProviderDialog onClose={close} />}
    </SettingsFrame>
  );
}

function Providers({ add }: { add: ReactNode }) {
  const { orgId } = useScope();
  const names = useNames();
  const providers = useQuery(apiQuery('GET /sso/providers', { query: { orgId, limit: '100' } }));
  return (
    <Loaded query={providers} what="Reading providers">
      {({ data }) =>
        data.length === 0 ? (
          <Empty title="No identity provider" action={add}>
            Connect Microsoft Entra ID, Google, Okta or another provider by OpenID Connect or SAML. Nobody
            signs in by it before you activate it.
          </Empty>
        ) : (
          <PagedTable
            label="Identity providers"
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              {
                header: 'Name',
                isName: true,
                cell: ({ id, name }) => (
                  <Anchor
                    inherit
                    renderRoot={(props) => (
                      <Link {...props} to="/settings/sso/$providerId" params={{ providerId: id }} />
                    )}
                  >
                    {name}
                  </Anchor>
                ),
              },
              { header: 'Type', cell: ({ type }) => (type === 'oidc' ? 'OpenID Connect' : 'SAML') },
              {
                header: 'For',
                cell: ({ orgId: owner }) => (owner === null ? 'Your company' : names.organization(owner)),
              },
              { header: 'State', cell: ({ status }) => <ProviderStatus status={status} /> },
              { header: 'Enforced', cell: ({ enforceSSO }) => (enforceSSO ? 'Yes' : 'No') },
              { header: 'Last sign-in', cell: ({ lastSuccessAt }) => <When at={lastSuccessAt} /> },
            ]}
          />
        )
      }
    </Loaded>
  );
}
