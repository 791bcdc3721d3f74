import { Button } from '@mantine/core';
import { IconFingerprint } from '@tabler/icons-react';
import { type SyntheticEvent, useEffect, useRef } from 'react';
import { send } from '../../api/index.ts';
import { askPasskey, type Assertion, hasPasskeys, offerPasskeys } from '../../passkeys.ts';
import { beginSession } from '../../session.ts';

const question = () => send('POST /auth/passkeys/sign-in-options', {});

/** Signs in with an answer of a passkey, which names the person itself. */
export async function signInWith(credential: Assertion): Promise<void> {
  const { tokens } = await send('POST /auth/passkeys/sign-in', { body: { credential } });
  await beginSession(tokens);
}

export const signInByPasskey = async (): Promise<void> => signInWith(await askPasskey(await question()));

/** Finishes a sign-in whose password was correct. */
export async function finishByPasskey(tempToken: string): Promise<void> {
  const options = await send('POST /auth/mfa/passkey-options', { body: { tempToken } });
  const credential = await askPasskey(options);
  const { tokens } = await send('POST /auth/mfa/passkey-verify', { body: { tempToken, credential } });
  await beginSession(tokens);
}

/**
 * Offers passkeys in the list that browsers show below a field with `autocomplete="… webauthn"`.
 * @returns what ends the offer: a browser asks for one passkey at a time
 */
export function usePasskeyOffer(onAnswer: (credential: Assertion) => void): () => void {
  const end = useRef<() => void>(undefined);
  useEffect(() => {
    end.current = offerPasskeys(question, onAnswer);
    return end.current;
    // The page answers in the same way each time.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return () => end.current?.();
}

/** Beside a form; absent where the browser has no passkeys. */
export function PasskeyButton({
  label,
  isBusy,
  onClick,
}: {
  label: string;
  isBusy: boolean;
  onClick: (event: SyntheticEvent) => void;
}) {
  if (!hasPasskeys()) return null;
  return (
    <Button
      variant="default"
      size="sm"
      leftSection={<IconFingerprint size={16} aria-hidden />}
      loading={isBusy}
      onClick={onClick}
    >
      {label}
    </Button>
  );
}
