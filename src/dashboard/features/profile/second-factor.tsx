import { Button, PasswordInput, Stack, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { QRCodeSVG } from 'qrcode.react';
import { useState } from 'react';
import { apiQuery, renewToken, useApiChange, type Answer } from '../../api/index.ts';
import {
  CopyText,
  Failure,
  focusOnArrival,
  FormDialog,
  Loaded,
  StateBadge,
  useSubmit,
  Notice,
} from '../../ui/index.ts';

type Setup = Answer<'POST /auth/mfa/setup'>;
const refreshes = ['GET /users/me', 'GET /auth/mfa'] as const;

/** The authenticator app, on and off, with the recovery codes that help when the telephone is lost. */
export function SecondFactor() {
  const factors = useQuery(apiQuery('GET /auth/mfa'));
  const [step, setStep] = useState<'none' | 'begin' | 'off' | 'codes'>('none');
  const [setup, setSetup] = useState<Setup>();
  const [codes, setCodes] = useState<readonly string[]>();
  return (
    <Loaded query={factors} what="Reading your account">
      {({ mfaEnabled, app, recoveryCodes }) => (
        <Stack align="flex-start" gap="sm">
          <StateBadge tone={mfaEnabled ? 'good' : 'warning'} label={mfaEnabled ? 'On' : 'Off'} />
          <Text size="sm">{factorWords({ mfaEnabled, app })}</Text>
          {mfaEnabled && (
            <Text size="sm" c="dimmed">
              {recoveryCodes} unused recovery {recoveryCodes === 1 ? 'code' : 'codes'}.
            </Text>
          )}
          {codes !== undefined && <RecoveryCodes codes={codes} />}
          {setup === undefined ? (
            <>
              {!app && (
                <Button variant={mfaEnabled ? 'default' : 'filled'} onClick={() => setStep('begin')}>
                  {mfaEnabled ? 'Set up an authenticator app' : 'Set up'}
                </Button>
              )}
              {mfaEnabled && (
                <Button variant="default" onClick={() => setStep('codes')}>
                  New recovery codes
                </Button>
              )}
              {app && (
                <Button variant="default" color="red" onClick={() => setStep('off')}>
                  {/* The passkeys stay. */}
                  Turn off
                </Button>
              )}
            </>
          ) : (
            <Confirm
              setup={setup}
              onDone={() => {
                if (setup.recoveryCodes.length > 0) setCodes(setup.recoveryCodes);
                setSetup(undefined);
              }}
            />
          )}
          <BeginDialog opened={step === 'begin'} onClose={() => setStep('none')} onBegun={setSetup} />
          <CodeDialogs step={step} onClose={() => setStep('none')} onCodes={setCodes} />
        </Stack>
      )}
    </Loaded>
  );
}

function factorWords({ mfaEnabled, app }: { mfaEnabled: boolean; app: boolean }): string {
  if (app) return 'Besides your password, a code of your authenticator app or a passkey is needed.';
  if (mfaEnabled) return 'Besides your password, a passkey is needed.';
  return 'With two-factor authentication, a stolen password is not enough. Some actions can only be taken with it.';
}

function BeginDialog({
  opened,
  onClose,
  onBegun,
}: {
  opened: boolean;
  onClose: () => void;
  onBegun: (setup: Setup) => void;
}) {
  const [currentPassword, setCurrent] = useState('');
  const begin = useApiChange('POST /auth/mfa/setup');
  const submit = async () => {
    onBegun(await begin.mutateAsync({ body: currentPassword === '' ? {} : { currentPassword } }));
    setCurrent('');
  };
  return (
    <FormDialog
      title="Set up two-factor authentication"
      opened={opened}
      onClose={onClose}
      submit={submit}
      submitLabel="Continue"
    >
      {(faults) => (
        <PasswordInput
          label="Your password"
          description="Leave it empty if you only sign in with single sign-on."
          autoComplete="current-password"
          data-autofocus
          value={currentPassword}
          onChange={(event) => setCurrent(event.currentTarget.value)}
          error={faults['currentPassword']}
        />
      )}
    </FormDialog>
  );
}

function Confirm({ setup, onDone }: { setup: Setup; onDone: () => void }) {
  const [code, setCode] = useState('');
  const enable = useApiChange('POST /auth/mfa/enable', { refreshes });
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    await enable.mutateAsync({ body: { code: code.trim() } });
    // The next token says that this session has proved it.
    await renewToken();
    onDone();
  });
  return (
    <form onSubmit={onSubmit}>
      <Stack gap="sm">
        <Text size="sm">
          Scan this picture with your authenticator app, or enter the secret there. Then enter the code that
          the app shows.
        </Text>
        <QRCodeSVG
          value={setup.otpAuthUrl}
          title="The secret, for the camera of the authenticator app"
          role="img"
          size={192}
          marginSize={4}
        />
        <CopyText label="Secret for the authenticator app" text={setup.secret} />
        <TextInput
          ref={focusOnArrival}
          label="Code"
          required
          autoComplete="one-time-code"
          inputMode="numeric"
          value={code}
          onChange={(event) => setCode(event.currentTarget.value)}
          error={faults['code']}
        />
        {failure !== undefined && <Failure error={failure} />}
        <Button type="submit" loading={isBusy}>
          Turn on
        </Button>
      </Stack>
    </form>
  );
}

export function RecoveryCodes({ codes }: { codes: readonly string[] }) {
  return (
    <Notice tone="warning" title="Keep these recovery codes" ref={focusOnArrival} tabIndex={-1}>
      <Text size="sm" mb="xs">
        Each replaces your second factor once. They are shown only now.
      </Text>
      <CopyText label="Recovery codes" text={codes.join('\n')} />
    </Notice>
  );
}

function CodeDialogs({
  step,
  onClose,
  onCodes,
}: {
  step: string;
  onClose: () => void;
  onCodes: (codes: readonly string[]) => void;
}) {
  const [code, setCode] = useState('');
  const [currentPassword, setCurrent] = useState('');
  const disable = useApiChange('POST /auth/mfa/disable', { refreshes });
  const renew = useApiChange('POST /auth/mfa/recovery-codes', { refreshes });
  const submit = async () => {
    const given = code.trim();
    const body = {
      ...(given === '' ? {} : { code: given }),
      ...(currentPassword === '' ? {} : { currentPassword }),
    };
    if (step === 'off') await disable.mutateAsync({ body });
    else onCodes((await renew.mutateAsync({ body })).recoveryCodes);
    setCode('');
    setCurrent('');
  };
  return (
    <FormDialog
      title={step === 'off' ? 'Turn off two-factor authentication' : 'New recovery codes'}
      opened={step === 'off' || step === 'codes'}
      onClose={onClose}
      submit={submit}
      submitLabel={step === 'off' ? 'Turn off' : 'Make new codes'}
    >
      {(faults) => (
        <>
          <PasswordInput
            label="Your password"
            description="Leave it empty if you only sign in with single sign-on."
            autoComplete="current-password"
            value={currentPassword}
            onChange={(event) => setCurrent(event.currentTarget.value)}
            error={faults['currentPassword']}
          />
          <TextInput
            label="Code"
            description="Of your authenticator app, or a recovery code. Leave it empty to use a passkey."
            autoComplete="one-time-code"
            value={code}
            onChange={(event) => setCode(event.currentTarget.value)}
            error={faults['code']}
          />
        </>
      )}
    </FormDialog>
  );
}
