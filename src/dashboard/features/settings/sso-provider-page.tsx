import {
  Stack,
  Text,
  MultiSelect,
  Switch,
  List,
  ThemeIcon,
  TextInput,
  PasswordInput,
  Textarea,
  Select,
} from '@mantine/core';
import { IconCheck, IconX } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type SsoProvider, type SsoProviderTest } from '../../api/index.ts';
import { useNames } from '../../directory.ts';
import { useRefusal } from '../../session.ts';
import {
  ConfirmAction,
  Loaded,
  Panel,
  When,
  Action,
  Failure,
  TextLink,
  CopyText,
  Notice,
} from '../../ui/index.ts';
import { SettingsFrame, SettingsForm } from './settings-frame.tsx';
import { PROVIDER_READS, SSO_READ, SSO_WRITE, ProviderStatus } from './sso-page.tsx';

const route = getRouteApi('/signed-in/settings/sso/$providerId');

/** One identity provider: the steps from its settings to enforcement, in their order. */
export function ProviderPage() {
  return (
    <SettingsFrame
      title="Identity provider"
      description={
        <TextLink inherit to="/settings/sso">
          All providers
        </TextLink>
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
          : 'This provider is not used for sign-in yet. Passwords go on working when it is active.'}
      </Text>
      <ConfirmAction
        style={{ alignSelf: 'flex-start' }}
        variant={isActive ? 'default' : 'filled'}
        refusal={refusal}
        color={isActive ? 'red' : 'blue'}
        title={isActive ? 'Deactivate the provider' : 'Activate the provider'}
        question={
          isActive
            ? 'It cannot be used for sign-in any more. People without a password cannot sign in at all.'
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
      question="It cannot be used for sign-in any more, and the links of accounts to it are gone. This cannot be undone."
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

/** Passwords off, except for those who get in when the provider fails. */
function Enforcement({ provider }: { provider: SsoProvider }) {
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

const CHECKS: Record<SsoProviderTest['checks'][number]['name'], string> = {
  configuration: 'The settings are complete',
  discovery: 'The discovery document can be read',
  issuer: 'The issuer is the one of the settings',
  endpoints: 'The endpoints answer to what Muster needs',
  keys: 'The keys can be read',
  certificate: 'The certificate is valid',
  ssoUrl: 'The sign-in address is usable',
};

/** Asks the provider itself whether the settings fit, and says for each check how it went. */
function ProviderTest({
  provider: { id, type },
  onImported,
}: {
  provider: SsoProvider;
  /** The metadata of the provider has changed its settings. */
  onImported: () => void;
}) {
  const [metadataUrl, setMetadataUrl] = useState('');
  const refusal = useRefusal(SSO_WRITE);
  const test = useApiChange('POST /sso/providers/{id}/test', { refreshes: PROVIDER_READS });
  const url = metadataUrl.trim();
  return (
    <>
      {type === 'saml' && (
        <TextInput
          label="Address of the metadata"
          description="Fills entity ID, sign-in address and certificate. Empty: tests what is stored."
          placeholder="https://id.example.com/metadata.xml"
          value={metadataUrl}
          onChange={(event) => setMetadataUrl(event.currentTarget.value)}
        />
      )}
      <Action
        variant="default"
        style={{ alignSelf: 'flex-start' }}
        refusal={refusal}
        loading={test.isPending}
        onClick={() =>
          test.mutate(
            { params: { id }, body: url === '' ? {} : { metadataUrl: url } },
            { onSuccess: () => url !== '' && onImported() },
          )
        }
      >
        {url === '' ? 'Test' : 'Read metadata and test'}
      </Action>
      {test.error !== null && <Failure error={test.error} />}
      {test.data !== undefined && <Result result={test.data} />}
    </>
  );
}

function Result({ result: { success, checks } }: { result: SsoProviderTest }) {
  return (
    <Notice
      tone={success ? 'good' : 'bad'}
      title={success ? 'The provider is ready to be activated' : 'The provider does not work yet'}
      role="status"
    >
      <List size="sm" spacing={4} center aria-label="Checks">
        {checks.map(({ name, ok, message }) => (
          <List.Item
            key={name}
            icon={
              <ThemeIcon size={18} radius="xl" color={ok ? 'teal' : 'red'}>
                {ok ? <IconCheck size={12} aria-label="Passed" /> : <IconX size={12} aria-label="Failed" />}
              </ThemeIcon>
            }
          >
            {CHECKS[name]}
            {message !== undefined && <Text size="sm">{message}</Text>}
          </List.Item>
        ))}
      </List>
    </Notice>
  );
}

const orNull = (value: string) => (value.trim() === '' ? null : value.trim());

/** The addresses that the other side asks for, and those that it gives. */
function ProviderSettings({ provider }: { provider: SsoProvider }) {
  const [name, setName] = useState(provider.name);
  const [fields, setFields] = useState({
    issuer: provider.issuer ?? '',
    clientId: provider.clientId ?? '',
    entityId: provider.entityId ?? '',
    ssoUrl: provider.ssoUrl ?? '',
    certificate: provider.certificate ?? '',
  });
  const [clientSecret, setClientSecret] = useState('');
  const [allowedDomains, setAllowedDomains] = useState(provider.allowedDomains);
  const [autoProvision, setAutoProvision] = useState(provider.autoProvision);
  const [defaultRoleId, setDefaultRoleId] = useState(provider.defaultRoleId);
  const refusal = useRefusal(SSO_WRITE);
  const save = useApiChange('PATCH /sso/providers/{id}', { refreshes: PROVIDER_READS });
  const isOidc = provider.type === 'oidc';
  const submit = async () => {
    await save.mutateAsync({
      params: { id: provider.id },
      body: {
        name,
        allowedDomains: allowedDomains.trim(),
        autoProvision,
        defaultRoleId,
        ...(isOidc
          ? {
              issuer: orNull(fields.issuer),
              clientId: orNull(fields.clientId),
              ...(clientSecret === '' ? {} : { clientSecret }),
            }
          : {
              entityId: orNull(fields.entityId),
              ssoUrl: orNull(fields.ssoUrl),
              certificate: orNull(fields.certificate),
            }),
      },
    });
    setClientSecret('');
  };
  const field = (key: keyof typeof fields, label: string, fault: string | undefined) => (
    <TextInput
      label={label}
      value={fields[key]}
      onChange={(event) => setFields({ ...fields, [key]: event.currentTarget.value })}
      error={fault}
    />
  );
  return (
    <>
      <OwnAddresses isOidc={isOidc} />
      <SettingsForm label="Settings of the provider" submit={submit} refusal={refusal} maw={640}>
        {(faults) => (
          <>
            <TextInput
              label="Name"
              required
              value={name}
              onChange={(event) => setName(event.currentTarget.value)}
              error={faults['name']}
            />
            {isOidc ? (
              <>
                {field('issuer', 'Issuer', faults['issuer'])}
                {field('clientId', 'Client ID', faults['clientId'])}
                <PasswordInput
                  label="Client secret"
                  description={
                    provider.hasClientSecret
                      ? 'A secret is stored. What you enter takes its place.'
                      : 'None is stored yet.'
                  }
                  autoComplete="off"
                  value={clientSecret}
                  onChange={(event) => setClientSecret(event.currentTarget.value)}
                  error={faults['clientSecret']}
                />
              </>
            ) : (
              <>
                {field('entityId', 'Entity ID', faults['entityId'])}
                {field('ssoUrl', 'Sign-in address', faults['ssoUrl'])}
                <Textarea
                  label="Certificate"
                  description="One or several as PEM. The test below can read all three from the metadata."
                  autosize
                  minRows={3}
                  maxRows={8}
                  value={fields.certificate}
                  onChange={(event) => setFields({ ...fields, certificate: event.currentTarget.value })}
                  error={faults['certificate']}
                />
              </>
            )}
            <TextInput
              label="Mail domains that may sign in"
              description="Separated by commas. Empty: all."
              value={allowedDomains}
              onChange={(event) => setAllowedDomains(event.currentTarget.value)}
              error={faults['allowedDomains']}
            />
            <Switch
              label="Make an account at the first sign-in"
              checked={autoProvision}
              onChange={(event) => setAutoProvision(event.currentTarget.checked)}
              error={faults['autoProvision']}
            />
            {autoProvision && (
              <DefaultRole
                scope={provider.ownerScope}
                value={defaultRoleId}
                onChange={setDefaultRoleId}
                error={faults['defaultRoleId']}
              />
            )}
          </>
        )}
      </SettingsForm>
    </>
  );
}

/** The addresses of Muster that are entered at the identity provider. */
function OwnAddresses({ isOidc }: { isOidc: boolean }) {
  const base = `${window.location.origin}/api/v1/sso`;
  return (
    <Notice tone="info" title="Enter at the identity provider">
      <Stack gap={6}>
        {isOidc ? (
          <>
            <Text size="sm">Address to return to (redirect URI)</Text>
            <CopyText label="Redirect URI" text={`${base}/callback`} />
          </>
        ) : (
          <>
            <Text size="sm">Metadata of Muster, and the address for responses (ACS)</Text>
            <CopyText label="Metadata" text={`${base}/saml/metadata`} />
            <CopyText label="Assertion consumer service" text={`${base}/saml/acs`} />
          </>
        )}
      </Stack>
    </Notice>
  );
}

/** The role of accounts that a first sign-in makes. */
function DefaultRole({
  scope,
  value,
  onChange,
  error,
}: {
  scope: SsoProvider['ownerScope'];
  value: string | null;
  onChange: (id: string | null) => void;
  error: string | undefined;
}) {
  const roles = useQuery(apiQuery('GET /roles', { query: { limit: '100', scope } }));
  return (
    <Select
      label="Role of new accounts"
      required
      data={(roles.data?.data ?? []).map(({ id, name }) => ({ value: id, label: name }))}
      value={value}
      onChange={onChange}
      error={error ?? roles.error?.message}
    />
  );
}
