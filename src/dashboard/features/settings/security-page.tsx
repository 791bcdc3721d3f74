import { Button, Checkbox, Code, Group, Text, Textarea } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { ApiError, apiQuery, useApiChange, type Partner } from '../../api/index.ts';
import { useRefusal } from '../../session.ts';
import { Failure, Loaded, Notice } from '../../ui/index.ts';
import { readPartnerSettings, SettingsForm, PARTNER_ONLY, SettingsFrame } from './settings-frame.tsx';

/** From where the people of the provider may sign in. */
export function SecurityPage() {
  return (
    <SettingsFrame
      title="Security settings"
      description="Addresses from which your people and API keys may use Muster. Your customers’ people are not limited by it."
      requires={PARTNER_ONLY}
    >
      <Security />
    </SettingsFrame>
  );
}

function Security() {
  const partner = useQuery(apiQuery('GET /orgs/partners/me'));
  // Asked anew: the person may have signed in elsewhere.
  const { data: me } = useQuery(apiQuery('GET /auth/me'));
  return (
    <Loaded query={partner} what="Reading settings">
      {(data) => <AllowlistForm partner={data} own={me?.clientIp} />}
    </Loaded>
  );
}

const linesIn = (text: string) =>
  text
    .split(/[\s,;]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '');

function AllowlistForm({ partner, own }: { partner: Partner; own: string | undefined }) {
  const [text, setText] = useState(
    (readPartnerSettings(partner.settings).security?.ipAllowlist ?? []).join('\n'),
  );
  const [isSure, setSure] = useState(false);
  const [shutsOut, setShutsOut] = useState(false);
  const refusal = useRefusal({ scopes: ['partner'], permission: 'organizations:write' });
  const save = useApiChange('PATCH /orgs/partners/me', { refreshes: ['GET /orgs/partners/me'] });
  const entries = linesIn(text);
  const change = (next: string) => {
    setText(next);
    setShutsOut(false);
    setSure(false);
  };
  const submit = async () => {
    await save.mutateAsync({
      body: {
        settings: { security: { ipAllowlist: entries } },
        ...(shutsOut && isSure ? { force: true } : {}),
      },
    });
    setShutsOut(false);
    setSure(false);
  };
  /** The server refuses a list without the address of the caller. To take it all the same needs a second decision. */
  const failure = (error: Error) => {
    if (error instanceof ApiError && error.status === 409) {
      return (
        <Notice tone="warning" role="alert" title="You would lock yourself out">
          <Text size="sm">
            Your address {own} is not on the list. Add it, or confirm above that you mean it so.
          </Text>
        </Notice>
      );
    }
    return <Failure error={withLine(error, entries)} />;
  };
  return (
    <SettingsForm
      label="Allowed addresses"
      submit={async () => {
        try {
          await submit();
        } catch (error) {
          setShutsOut(error instanceof ApiError && error.status === 409);
          throw error;
        }
      }}
      submitLabel={entries.length === 0 ? 'Allow all addresses' : 'Save list'}
      refusal={refusal}
      failure={failure}
    >
      {() => (
        <>
          <Textarea
            label="Allowed addresses"
            description="One per line: an IPv4 or IPv6 address, or a range such as 203.0.113.0/24. Empty: from everywhere."
            autosize
            minRows={5}
            maxRows={16}
            value={text}
            onChange={(event) => change(event.currentTarget.value)}
            styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
          />
          {own !== undefined && (
            <Group gap="xs">
              <Text size="sm">
                Your address is <Code>{own}</Code>
              </Text>
              {!entries.includes(own) && (
                <Button
                  size="compact-xs"
                  variant="default"
                  leftSection={<IconPlus size={12} aria-hidden />}
                  onClick={() => change([...entries, own].join('\n'))}
                >
                  Add it
                </Button>
              )}
            </Group>
          )}
          {shutsOut && (
            <Checkbox
              label="Take the list although my address is not on it. I know that I lose access from here."
              checked={isSure}
              onChange={(event) => setSure(event.currentTarget.checked)}
            />
          )}
        </>
      )}
    </SettingsForm>
  );
}

/** The rule of an entry names its place in the list; people look for its text. */
function withLine(error: Error, entries: readonly string[]): Error {
  if (!(error instanceof ApiError)) return error;
  const faults = Object.entries(error.fields).map(([path, message]) => {
    const place = /ipAllowlist\.(\d+)$/.exec(path)?.[1];
    const entry = place === undefined ? undefined : entries[Number(place)];
    return entry === undefined ? message : `“${entry}”: ${message}`;
  });
  if (faults.length === 0) return error;
  return new ApiError(error.status, {
    error: faults.slice(0, 5).join(' '),
    code: error.code,
    ...(error.requestId === undefined ? {} : { requestId: error.requestId }),
  });
}
