from tests.cases import cases

from sparkwright.spark.secrets import settings_to_show


@cases(
    "name, value",
    ("spark.hadoop.fs.s3a.secret.key", "abc123"),
    ("spark.ssl.keyPassword", "abc123"),
    ("spark.hadoop.google.auth.token", "abc123"),
    ("spark.executor.extraJavaOptions", "-Djavax.net.ssl.keyStorePassword=abc123"),
    ("spark.hadoop.fs.azure.sas.box.account.blob.core.windows.net", "abc123"),
    ("spark.sql.catalog.x.uri", "wasbs://box@account/x?sv=2022&sig=abc123"),
    ("spark.sql.catalog.x.url", "jdbc:postgresql://h/db?user=ann&pwd=abc123"),
    ("spark.executorEnv.PGPASS", "abc123"),
    ("spark.executorEnv.SOMETHING", "abc123"),
    ("spark.executor.extraJavaOptions", "-Xmx1g -Ddb.pass=abc123"),
    ("spark.executor.extraJavaOptions", "-jar x --password abc123"),
    ("spark.driver.identity", "-----BEGIN RSA PRIVATE KEY-----abc123"),
    ("spark.sql.x.headers", "Authorization: Bearer abc123"),
    ("spark.my.own", "abc123"),
    ("spark.jars.repositories", "https://user:abc123@maven.example/x"),
)
def test_secrets_are_not_reported(name, value):
    assert "abc123" not in settings_to_show([(name, value)])[name]


def test_settings_set_by_spark_are_omitted():
    pairs = [
        ("spark.app.id", "local-1"),
        ("spark.driver.extraJavaOptions", "-Djava.net.preferIPv6Addresses=false --add-opens=a/b=c"),
        ("spark.executor.extraJavaOptions", "--add-opens=a/b=c -XX:+UseSerialGC"),
        ("spark.executor.memory", "1g"),
        ("spark.sql.mapKeyDedupPolicy", "LAST_WIN"),
        ("spark.shuffle.sort.bypassMergeThreshold", "9"),
        ("spark.executorEnv.HADOOP_CONF_DIR", "/etc/hadoop"),
        ("spark.hadoop.fs.defaultFS", "hdfs://n:8020"),
    ]
    assert settings_to_show(pairs) == {
        "spark.executorEnv.HADOOP_CONF_DIR": "/etc/hadoop",
        "spark.hadoop.fs.defaultFS": "hdfs://n:8020",
        "spark.shuffle.sort.bypassMergeThreshold": "9",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.executor.memory": "1g",
    }
