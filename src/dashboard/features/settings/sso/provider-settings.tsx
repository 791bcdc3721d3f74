import { Alert, PasswordInput, Stack, Switch, Text, Textarea, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type SsoProvider } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { CopyText } from '../../../ui/index.ts';
import { SettingsForm } from '../settings-form.tsx';
import { DefaultRole } from './default-role.tsx';
import { PROVIDER_READS, SSO_WRITE } from './sso-permissions.ts';

const orNull = (value: string) => (value.trim() === '' ? null : value.trim());

/** The addresses that the other side asks for, and those that it gives. */
export function ProviderSettings({ provider }: { provider: SsoProvider }) {
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

/** What the identity provider wants to know of Muster. */
function OwnAddresses({ isOidc }: { isOidc: boolean }) {
  const base = `${window.location.origin}/api/v1/sso`;
  return (
    <Alert
      styles={{ title: { color: 'var(--mantine-color-text)' } }}
      color="blue"
      title="Enter at the identity provider"
    >
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
    </Alert>
  );
}
