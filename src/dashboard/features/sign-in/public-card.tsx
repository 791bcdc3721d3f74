import { Center, Paper, Stack, Text, Title, Button, Group, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useEffect, type ReactNode, useState } from 'react';
import { Loading, Failure, focusOnArrival, useSubmit, TextLink, Notice } from '../../ui/index.ts';
import { send, type SecondFactorRequired } from '../../api/index.ts';
import { hasPasskeys } from '../../passkeys.ts';
import { beginSession } from '../../session.ts';
import { finishByPasskey, PasskeyButton } from './passkey-sign-in.tsx';

/** The frame of the pages for people who are not signed in. */
export function PublicCard({
  title,
  text,
  logo,
  children,
}: {
  title: string;
  text?: ReactNode;
  logo?: ReactNode;
  children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Muster`;
  }, [title]);
  return (
    <Center mih="100dvh" p="md" component="main">
      <Paper withBorder shadow="sm" p="xl" w="100%" maw={400}>
        <Stack>
          {logo}
          <Title order={1} size="h3">
            {title}
          </Title>
          {text !== undefined && (
            <Text size="sm" c="dimmed" component="div">
              {text}
            </Text>
          )}
          {children}
        </Stack>
      </Paper>
    </Center>
  );
}

export function ToSignIn({ label = 'Go to the sign-in' }: { label?: string }) {
  return (
    <TextLink size="sm" to="/login">
      {label}
    </TextLink>
  );
}

/** For an address that was opened without the token of a mail. */
export function IncompleteLink({ title }: { title: string }) {
  return (
    <PublicCard title={title}>
      <Notice tone="warning">
        This address is not complete. Open the link of the mail again, whole, up to its last letter.
      </Notice>
      <ToSignIn />
    </PublicCard>
  );
}

/** Leads on to a page of the frame, once. */
export function ToPage({ path }: { path: string }) {
  const navigate = useNavigate();
  useEffect(() => {
    void navigate({ href: path, replace: true });
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  return <Loading what="Opening Muster" />;
}

/** A sign-in whose password was correct. */
export type PendingSignIn = Pick<SecondFactorRequired, 'tempToken' | 'methods'>;

/** Asks for the second factor: whichever the account has. */
export function SecondFactorCard(props: { pending: PendingSignIn; onBack: () => void }) {
  return (
    <PublicCard
      title="Two-factor authentication"
      text="Besides your password, your account needs a second factor."
    >
      <SecondFactorForm {...props} />
    </PublicCard>
  );
}

function SecondFactorForm({
  pending: { tempToken, methods },
  onBack,
}: {
  pending: PendingSignIn;
  onBack: () => void;
}) {
  const [code, setCode] = useState('');
  const byCode = useSubmit(async () => {
    const { tokens } = await send('POST /auth/mfa/verify', { body: { tempToken, code: code.trim() } });
    await beginSession(tokens);
  });
  const byPasskey = useSubmit(() => finishByPasskey(tempToken));
  const failure = byCode.failure ?? byPasskey.failure;
  return (
    <form onSubmit={byCode.onSubmit}>
      <Stack>
        {methods.includes('passkey') && (
          <PasskeyButton label="Use a passkey" isBusy={byPasskey.isBusy} onClick={byPasskey.onSubmit} />
        )}
        <TextInput
          label="Code"
          description={codeWords(methods)}
          value={code}
          onChange={(event) => setCode(event.currentTarget.value)}
          autoComplete="one-time-code"
          required
          ref={focusOnArrival}
          size="sm"
        />
        {failure !== undefined && <Failure error={failure} />}
        <Group justify="space-between">
          <Button variant="default" size="sm" onClick={onBack}>
            Back
          </Button>
          <Button type="submit" loading={byCode.isBusy} size="sm">
            Sign in
          </Button>
        </Group>
      </Stack>
    </form>
  );
}

function codeWords(methods: PendingSignIn['methods']): string {
  if (methods.includes('app')) return 'Of your authenticator app, or a recovery code.';
  if (!methods.includes('passkey')) return 'One of your recovery codes.';
  return hasPasskeys()
    ? 'One of your recovery codes, if you do not have your passkey.'
    : 'One of your recovery codes, because this browser cannot use passkeys.';
}

/** The token of a mailed link. It is taken out of the address, so that it is not kept in the browser history. */
export function useMailedToken(): string | undefined {
  const [token] = useState(
    () => new URLSearchParams(window.location.hash.slice(1)).get('token') ?? undefined,
  );
  useEffect(() => {
    window.history.replaceState(window.history.state, '', window.location.pathname);
  }, []);
  return token;
}

/** Whether people can register themselves on this server. */
export const useRegistration = () =>
  useQuery({
    queryKey: ['registration'],
    queryFn: ({ signal }) => send('GET /auth/registration', {}, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
