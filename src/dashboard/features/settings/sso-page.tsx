import { Stack, Title, PasswordInput, Select, TextInput, Text, Group } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { apiQuery, useApiChange, type SsoPreset, type SsoDomain, type SsoProvider } from '../../api/index.ts';
import { useNames, useOrganizations } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal, useMe, type Requirement } from '../../session.ts';
import {
  Action,
  When,
  FormDialog,
  TextLink,
  List,
  ConfirmAction,
  CopyText,
  Failure,
  StateBadge,
  formatWord,
} from '../../ui/index.ts';
import { SettingsFrame } from './settings-frame.tsx';

/** Sign-in by the identity provider of the own company or of a customer. */
export function SsoPage() {
  const [isOpen, { open, close }] = useDisclosure(false);
  const refusal = useRefusal(SSO_WRITE);
  const add = (
    <Action refusal={refusal} icon={IconPlus} onClick={open}>
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
    <List
      query={providers}
      noun="providers"
      label="Identity providers"
      keyOf={({ id }) => id}
      empty={{
        title: 'No identity provider',
        text: 'Connect Microsoft Entra ID, Google, Okta or another provider by OpenID Connect or SAML. It is used for sign-in only after you activate it.',
        action: add,
      }}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ id, name }) => (
            <TextLink inherit to="/settings/sso/$providerId" params={{ providerId: id }}>
              {name}
            </TextLink>
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
  );
}

const OWN = 'partner';
const OTHER = [
  { value: 'oidc', label: 'Another, by OpenID Connect' },
  { value: 'saml', label: 'Another, by SAML' },
];

/** `https://{domain}.okta.com` with the domain that was typed; null if the preset has no such address. */
function fill(template: string | undefined, values: Record<string, string>): string | null {
  if (template === undefined) return null;
  return template.replaceAll(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name]?.trim() ?? '';
    return value === '' ? whole : value;
  });
}

/** The addresses of a preset, completed with the values that the person has typed. */
const addressesOf = (preset: SsoPreset, values: Record<string, string>) => ({
  issuer: fill(preset.issuer, values),
  authorizationUrl: fill(preset.authorizationUrl, values),
  tokenUrl: fill(preset.tokenUrl, values),
  userInfoUrl: fill(preset.userInfoUrl, values),
  jwksUrl: fill(preset.jwksUrl, values),
  ssoUrl: fill(preset.ssoUrl, values),
});

/** The first step: the provider and its owner. The provider stays inactive until it is tested and activated. */
function NewProviderDialog({ onClose }: { onClose: () => void }) {
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

/** Mail domains that an organization has proved to own. */
function Domains() {
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal(SSO_WRITE);
  const [isAdding, setAdding] = useState(false);
  const domains = useQuery(apiQuery('GET /sso/domains', { query: { orgId, limit: '100' } }));
  const verify = useApiChange('POST /sso/domains/{id}/verify', { refreshes: ['GET /sso/domains'] });
  const remove = useApiChange('DELETE /sso/domains/{id}', { refreshes: ['GET /sso/domains'] });
  const add = (
    <Action size="xs" variant="default" refusal={refusal} icon={IconPlus} onClick={() => setAdding(true)}>
      New domain
    </Action>
  );
  return (
    <Stack gap="xs" component="section" aria-label="Domains">
      <Group justify="space-between">
        <Title order={2} size="h5">
          Domains
        </Title>
        {add}
      </Group>
      {verify.error !== null && <Failure error={verify.error} />}
      <List
        query={domains}
        noun="domains"
        keyOf={({ id }) => id}
        empty={{
          title: 'No domains',
          text: 'With a DNS record, an organization proves that a mail domain is its own.',
        }}
        columns={[
          { header: 'Domain', isName: true, cell: ({ domain }) => domain },
          { header: 'Organization', cell: (domain) => names.organization(domain.orgId) },
          { header: 'State', cell: (domain) => <DomainState domain={domain} /> },
          {
            header: 'DNS record',
            cell: ({ record, domain }) => (
              <Stack gap={4}>
                <Text size="xs">{record.type} record with this name and value:</Text>
                <CopyText label={`Name of the record of ${domain}`} text={record.name} />
                <CopyText label={`Value of the record of ${domain}`} text={record.value} />
              </Stack>
            ),
          },
          {
            header: 'Actions',
            align: 'right',
            cell: ({ id, domain }) => (
              <>
                <Action
                  inRow
                  refusal={refusal}
                  loading={verify.isPending && verify.variables.params.id === id}
                  onClick={() => verify.mutate({ params: { id } })}
                >
                  Verify
                </Action>
                <ConfirmAction
                  inRow
                  refusal={refusal}
                  title={`Delete ${domain}`}
                  question="The organization has to prove it again before it counts as its own."
                  confirm="Delete"
                  run={() => remove.mutateAsync({ params: { id } })}
                >
                  Delete
                </ConfirmAction>
              </>
            ),
          },
        ]}
      />
      {isAdding && <NewDomainDialog onClose={() => setAdding(false)} />}
    </Stack>
  );
}

function DomainState({ domain: { status, verifiedAt, failingSince } }: { domain: SsoDomain }) {
  if (status === 'pending') return <StateBadge tone="neutral" label="Pending" />;
  return (
    <>
      {failingSince === null ? (
        <StateBadge tone="good" label="Verified" />
      ) : (
        <StateBadge tone="warning" label="Record is gone" title="Put the record back into the DNS." />
      )}
      <Text size="xs">
        <When at={failingSince ?? verifiedAt} />
      </Text>
    </>
  );
}

function NewDomainDialog({ onClose }: { onClose: () => void }) {
  const me = useMe();
  const scope = useScope();
  const organizations = useOrganizations();
  const [chosen, setOrgId] = useState<string | null>(scope.orgId ?? me.orgId ?? null);
  const orgId = chosen ?? (organizations.length === 1 ? (organizations[0]?.id ?? null) : null);
  const [domain, setDomain] = useState('');
  const create = useApiChange('POST /sso/domains', { refreshes: ['GET /sso/domains'] });
  return (
    <FormDialog
      opened
      title="New domain"
      onClose={onClose}
      submit={() =>
        create.mutateAsync({ body: { domain: domain.trim(), ...(orgId === null ? {} : { orgId }) } })
      }
      submitLabel="Create domain"
    >
      {(faults) => (
        <>
          {me.scope !== 'organization' && (
            <Select
              label="Organization"
              required
              searchable
              data={organizations.map(({ id, name }) => ({ value: id, label: name }))}
              value={orgId}
              onChange={setOrgId}
              error={faults['orgId']}
            />
          )}
          <TextInput
            label="Domain"
            description="The part behind the @ of mail addresses."
            placeholder="example.com"
            required
            data-autofocus
            value={domain}
            onChange={(event) => setDomain(event.currentTarget.value)}
            error={faults['domain']}
          />
        </>
      )}
    </FormDialog>
  );
}

export const SSO_READ: Requirement = 'organizations:read';
/** The server asks for the second factor besides. */
export const SSO_WRITE: Requirement = 'organizations:write';

/** The queries to fetch again after a change of an identity provider. */
export const PROVIDER_READS = ['GET /sso/providers', 'GET /sso/providers/{id}'] as const;

const TONES = { active: 'good', testing: 'busy', inactive: 'neutral' } as const;

export function ProviderStatus({ status }: { status: SsoProvider['status'] }) {
  return <StateBadge tone={TONES[status]} label={formatWord(status)} />;
}
