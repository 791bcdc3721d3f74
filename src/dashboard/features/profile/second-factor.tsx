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
const refreshes = ['GET /users/me'] as const;

/** On and off, with the recovery codes that help when the telephone is lost. */
export function SecondFactor() {
  const user = useQuery(apiQuery('GET /users/me'));
  const [step, setStep] = useState<'none' | 'begin' | 'off' | 'codes'>('none');
  const [setup, setSetup] = useState<Setup>();
  const [codes, setCodes] = useState<readonly string[]>();
  return (
    <Loaded query={user} what="Reading your account">
      {({ mfaEnabled }) => (
        <Stack align="flex-start" gap="sm">
          <StateBadge tone={mfaEnabled ? 'good' : 'warning'} label={mfaEnabled ? 'On' : 'Off'} />
          <Text size="sm">
            {mfaEnabled
              ? 'Besides your password, a code of your authenticator app is needed.'
              : 'With two-factor authentication, a stolen password is not enough. Some actions can only be taken with it.'}
          </Text>
          {codes !== undefined && <RecoveryCodes codes={codes} />}
          {setup === undefined ? (
            <>
              {!mfaEnabled && <Button onClick={() => setStep('begin')}>Set up</Button>}
              {mfaEnabled && (
                <Button variant="default" onClick={() => setStep('codes')}>
                  New recovery codes
                </Button>
              )}
              {mfaEnabled && (
                <Button variant="default" color="red" onClick={() => setStep('off')}>
                  Turn off
                </Button>
              )}
            </>
          ) : (
            <Confirm
              setup={setup}
              onDone={() => {
                setCodes(setup.recoveryCodes);
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

function RecoveryCodes({ codes }: { codes: readonly string[] }) {
  return (
    <Notice tone="warning" title="Keep these recovery codes" ref={focusOnArrival} tabIndex={-1}>
      <Text size="sm" mb="xs">
        Each replaces a code of the app once. They are shown only now.
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
  const renew = useApiChange('POST /auth/mfa/recovery-codes');
  const submit = async () => {
    const body = { code: code.trim(), ...(currentPassword === '' ? {} : { currentPassword }) };
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
            description="Of your authenticator app, or a recovery code."
            required
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
