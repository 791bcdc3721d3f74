import { PasswordInput, Select, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type SsoPreset } from '../../../api/index.ts';
import { useOrganizations } from '../../../directory/index.ts';
import { useScope } from '../../../routing/index.ts';
import { useMe } from '../../../session/index.ts';
import { FormDialog } from '../../../ui/index.ts';

const OWN = 'partner';
const OTHER = [
  { value: 'oidc', label: 'Another, by OpenID Connect' },
  { value: 'saml', label: 'Another, by SAML' },
];

/** `https://{domain}.okta.com` with the domain that was typed; null where the preset has no such address. */
function fill(template: string | undefined, values: Record<string, string>): string | null {
  if (template === undefined) return null;
  return template.replaceAll(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name]?.trim() ?? '';
    return value === '' ? whole : value;
  });
}

/** What a preset gives: its addresses, with what the person has filled in. */
const addressesOf = (preset: SsoPreset, values: Record<string, string>) => ({
  issuer: fill(preset.issuer, values),
  authorizationUrl: fill(preset.authorizationUrl, values),
  tokenUrl: fill(preset.tokenUrl, values),
  userInfoUrl: fill(preset.userInfoUrl, values),
  jwksUrl: fill(preset.jwksUrl, values),
  ssoUrl: fill(preset.ssoUrl, values),
});

/** The first step: which provider it is, and for whom. It stays inactive until it is tested and activated. */
export function NewProviderDialog({ onClose }: { onClose: () => void }) {
  const me = useMe();
  const scope = useScope();
  const navigate = useNavigate();
  const organizations = useOrganizations();
  const presets = useQuery(apiQuery('GET /sso/presets')).data?.data ?? [];
  const [choice, setChoice] = useState<string | null>(null);
  const [owner, setOwner] = useState<string | null>(scope.orgId ?? me.orgId ?? null);
  const [name, setName] = useState<string>();
  const [values, setValues] = useState<Record<string, string>>({});
  const [issuer, setIssuer] = useState('');
  const [clientId, setClientId] = useState('');
  const [clientSecret, setClientSecret] = useState('');
  const create = useApiChange('POST /sso/providers', { refreshes: ['GET /sso/providers'] });
  const preset = presets.find(({ id }) => id === choice);
  const type = preset?.type ?? (choice === 'saml' ? 'saml' : 'oidc');
  const isOidc = choice !== null && type === 'oidc';
  const shownName = name ?? preset?.name ?? '';
  const optional = (value: string) => (value.trim() === '' ? null : value.trim());
  const submit = async () => {
    const { id } = await create.mutateAsync({
      body: {
        ...(owner === OWN ? { ownerScope: 'partner' } : { ownerScope: 'organization', orgId: owner }),
        name: shownName,
        type,
        ...(preset === undefined
          ? isOidc
            ? { issuer: optional(issuer) }
            : {}
          : {
              preset: preset.id,
              attributeMapping: preset.attributeMapping,
              ...(preset.scopes === undefined ? {} : { scopes: preset.scopes }),
              ...addressesOf(preset, values),
            }),
        ...(isOidc ? { clientId: optional(clientId), clientSecret: optional(clientSecret) } : {}),
      },
    });
    await navigate({ to: '/settings/sso/$providerId', params: { providerId: id } });
  };
  return (
    <FormDialog
      opened
      title="New identity provider"
      onClose={onClose}
      submit={submit}
      submitLabel="Create provider"
    >
      {(faults) => (
        <>
          <Select
            label="Provider"
            required
            searchable
            data={[...presets.map(({ id, name: label }) => ({ value: id, label })), ...OTHER]}
            value={choice}
            onChange={setChoice}
            error={faults['preset'] ?? faults['type']}
            data-autofocus
          />
          {me.scope !== 'organization' && (
            <Select
              label="Who signs in by it"
              required
              searchable
              data={[
                ...(me.scope === 'partner' ? [{ value: OWN, label: 'Your own people' }] : []),
                ...organizations.map(({ id, name: label }) => ({ value: id, label })),
              ]}
              value={owner}
              onChange={setOwner}
              error={faults['orgId'] ?? faults['ownerScope']}
            />
          )}
          <TextInput
            label="Name"
            description="It stands on the button of the sign-in page."
            required
            value={shownName}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          {preset?.placeholders.map((placeholder) => (
            <TextInput
              key={placeholder}
              label={`Your ${placeholder}`}
              description={`Stands in ${preset.issuer ?? preset.ssoUrl ?? 'the addresses of the provider'}.`}
              required
              value={values[placeholder] ?? ''}
              onChange={(event) => setValues({ ...values, [placeholder]: event.currentTarget.value })}
              error={faults['issuer'] ?? faults['ssoUrl']}
            />
          ))}
          {isOidc && preset === undefined && (
            <TextInput
              label="Issuer"
              description="The endpoints are read from its discovery document."
              placeholder="https://id.example.com"
              required
              value={issuer}
              onChange={(event) => setIssuer(event.currentTarget.value)}
              error={faults['issuer']}
            />
          )}
          {isOidc && (
            <>
              <TextInput
                label="Client ID"
                value={clientId}
                onChange={(event) => setClientId(event.currentTarget.value)}
                error={faults['clientId']}
              />
              <PasswordInput
                label="Client secret"
                description="Stored encrypted, and never shown again."
                autoComplete="off"
                value={clientSecret}
                onChange={(event) => setClientSecret(event.currentTarget.value)}
                error={faults['clientSecret']}
              />
            </>
          )}
        </>
      )}
    </FormDialog>
  );
}
