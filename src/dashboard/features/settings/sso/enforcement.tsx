import { MultiSelect, Switch, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type SsoProvider } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { When } from '../../../ui/index.ts';
import { SettingsForm } from '../settings-form.tsx';
import { PROVIDER_READS, SSO_WRITE } from './sso-permissions.ts';

/** Passwords off, except for those who get in when the provider fails. */
export function Enforcement({ provider }: { provider: SsoProvider }) {
  const { id, orgId, lastSuccessAt } = provider;
  const [enforceSSO, setEnforced] = useState(provider.enforceSSO);
  const [trustsIdpMfa, setTrusts] = useState(provider.trustsIdpMfa);
  const [breakGlassUserIds, setBreakGlass] = useState(provider.breakGlassUserIds);
  const mayEdit = useRefusal(SSO_WRITE);
  const mayList = useRefusal('users:read');
  const people = useQuery({
    ...apiQuery('GET /users', { query: { limit: '100', status: 'active', orgId: orgId ?? undefined } }),
    enabled: mayList === undefined,
  });
  const save = useApiChange('PATCH /sso/providers/{id}', { refreshes: PROVIDER_READS });
  const choices = (people.data?.data ?? [])
    .filter((person) => person.orgId === orgId)
    .map((person) => ({ value: person.id, label: `${person.name} (${person.email})` }));
  const unknown = breakGlassUserIds.filter((known) => !choices.some(({ value }) => value === known));
  return (
    <SettingsForm
      label="Enforcement"
      refusal={mayEdit}
      submit={() =>
        save.mutateAsync({ params: { id }, body: { enforceSSO, trustsIdpMfa, breakGlassUserIds } })
      }
      maw={640}
    >
      {(faults) => (
        <>
          <Text size="sm" component="div">
            Last successful sign-in by it: <When at={lastSuccessAt} />
          </Text>
          <Switch
            label="Only this provider: passwords are refused"
            description={
              lastSuccessAt === null && !enforceSSO
                ? 'Possible after one successful sign-in by this provider.'
                : 'The people below can still sign in with a password.'
            }
            disabled={lastSuccessAt === null && !enforceSSO}
            checked={enforceSSO}
            onChange={(event) => setEnforced(event.currentTarget.checked)}
            error={faults['enforceSSO']}
          />
          <MultiSelect
            label="Who gets in with a password when the provider fails"
            description={
              orgId === null
                ? 'At least one active Partner Admin with a password and two-factor authentication.'
                : 'At least one active Organization Admin with a password.'
            }
            searchable
            data={[...choices, ...unknown.map((known) => ({ value: known, label: known }))]}
            value={breakGlassUserIds}
            onChange={setBreakGlass}
            error={faults['breakGlassUserIds'] ?? people.error?.message}
          />
          <Switch
            label="Two-factor authentication at the identity provider counts as one of Muster"
            checked={trustsIdpMfa}
            onChange={(event) => setTrusts(event.currentTarget.checked)}
            error={faults['trustsIdpMfa']}
          />
        </>
      )}
    </SettingsForm>
  );
}
