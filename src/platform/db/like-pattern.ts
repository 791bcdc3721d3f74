const literally = (text: string) => text.replaceAll(/[\\%_]/g, String.raw`\$&`);

/** The pattern for `like` that finds a text anywhere within another, its own wildcards taken as they are. */
export const containing = (text: string) => `%${literally(text)}%`;

/** And at the beginning of another. */
export const beginningWith = (text: string) => `${literally(text)}%`;
