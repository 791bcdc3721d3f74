import { Alert, List, Text, ThemeIcon, TextInput } from '@mantine/core';
import { IconCheck, IconX } from '@tabler/icons-react';
import { useState } from 'react';
import { useApiChange, type SsoProvider, type SsoProviderTest } from '../../../api/index.ts';
import { useRefusal } from '../../../session/index.ts';
import { Action, Failure } from '../../../ui/index.ts';
import { PROVIDER_READS, SSO_WRITE } from './sso-permissions.ts';

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
export function ProviderTest({
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
    <Alert
      styles={{ title: { color: 'var(--mantine-color-text)' } }}
      color={success ? 'teal' : 'red'}
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
    </Alert>
  );
}
