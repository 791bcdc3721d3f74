/** The pattern for `like` that finds a text anywhere within another, its own wildcards taken as they are. */
export const containing = (text: string) => `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;
