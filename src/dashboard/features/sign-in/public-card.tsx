import { Center, Paper, Stack, Text, Title } from '@mantine/core';
import { useEffect, type ReactNode } from 'react';

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
